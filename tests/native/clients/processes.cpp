// A parent that forks before it uses the driver, forks after it does, and spawns itself anew. Each
// process prints a line of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "client.h"

namespace {

void one_launch(const char* who) {
  constexpr int n = 128;
  start();
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr x = upload(ramp(n, who[0] == 'p' ? 1.0f : 2.0f));
  float s = 3;
  int count = n;
  launch(scale, 1, 128, {&x, &s, &count});
  report(who, download<float>(x, n));
  std::fflush(stdout);
}

int reap(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

}  // namespace

int main(int argc, char** argv) {
  std::string how = argc > 1 ? argv[1] : "fork";
  if (how == "child") {
    one_launch("child");
    return 0;
  }
  if (how == "fork") {
    pid_t child = fork();
    if (child == 0) {
      one_launch("child");
      std::exit(0);
    }
    int status = reap(child);
    one_launch("parent");
    return status;
  }
  one_launch("parent");
  pid_t child = fork();
  if (child == 0) {
    if (how == "spawn") {
      execl("/proc/self/exe", argv[0], "child", nullptr);
      _exit(98);
    }
    // After the driver was used a forked child can do nothing with it; it has to be told so.
    CUdeviceptr x;
    _exit(cuMemAlloc(&x, 16) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 97);
  }
  int status = reap(child);
  one_launch("parent again");
  return status;
}
