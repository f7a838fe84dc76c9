// Programs that go wrong: failures MODE, where MODE is fault, memory or fork.
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>
#include <cstring>

__global__ void good(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 2 + i;
}

__global__ void wild(int* x, int* nowhere) {
  if (threadIdx.x == 3) *nowhere = x[0];
  x[threadIdx.x] += 1;
}

static int run_good(const char* name, int n) {
  int* x = to_device(std::vector<int>(n, 5));
  good<<<(n + 63) / 64, 64>>>(x, n);
  report(name, x, n * sizeof(int));
  return 0;
}

static int fault() {
  run_good("good", 200);
  int* x = to_device(std::vector<int>(64, 1));
  wild<<<1, 64>>>(x, reinterpret_cast<int*>(0x1234567000ull));
  const hipError_t status = hipDeviceSynchronize();
  std::printf("synchronize: %d\n", static_cast<int>(status));
  return status == hipSuccess ? 0 : 3;
}

// Takes all of the device's memory; the program itself can live with that.
static int memory() {
  run_good("before", 200);
  std::vector<void*> blocks;
  for (size_t size = size_t(64) << 20; size >= 4096; size /= 2) {
    void* block = nullptr;
    while (blocks.size() < 4096 && hipMalloc(&block, size) == hipSuccess) blocks.push_back(block);
  }
  (void)hipGetLastError();
  std::printf("taken: %s\n", blocks.empty() ? "nothing" : "all");
  for (void* block : blocks) CHECK(hipFree(block));
  return run_good("after", 300);
}

// Only the child uses the GPU: the parent of a prefork server.
static int forked() {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    run_good("child", 128);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  std::printf("child: %d\n", WEXITSTATUS(status));
  return WEXITSTATUS(status);
}

int main(int count, char** words) {
  const char* mode = count > 1 ? words[1] : "";
  if (!std::strcmp(mode, "fault")) return fault();
  if (!std::strcmp(mode, "memory")) return memory();
  if (!std::strcmp(mode, "fork")) return forked();
  return 2;
}
