// Two ranks that share memory: the child, on device 1, has a window that the parent, on device 0, imports and
// uses in its launches. "vmm" or "ipc" is how it comes over; then what is done with it:
//   reads    vector_add of the window and memory of the parent's own
//   writes   vector_add into the window
//   waits    a kernel that waits for a flag in the window, which the child sets when it runs
//   nccl     a kernel with the name of one of NCCL's
//   lsa      a kernel that takes NCCL's device communicator
//   host     vector_add of memory in /dev/shm, which both have mapped
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "client.h"
#include "shared_window.h"

namespace {

constexpr int n = 3000;
constexpr size_t bytes = n * sizeof(float);

int down[2], up[2];  // from the parent to the child, and back

int child(const std::string& way, const std::string& what) {
  start(1);
  WindowHandle handle = {};
  CUdeviceptr window = make_window(way, 1, &handle);
  if (what != "waits") CHECK(cuMemcpyHtoD(window, ramp(n, 3).data(), bytes));
  CHECK(cuCtxSynchronize());
  expect(write(up[1], &handle, sizeof handle) == sizeof handle);
  for (int runs = 0; what == "waits" && runs == 0;) CHECK(cuMemcpyDtoH(&runs, window + 4, 4));
  int set = 1;
  if (what == "waits") CHECK(cuMemcpyHtoD(window, &set, 4));
  char end;
  expect(read(down[0], &end, 1) == 1);
  return 0;
}

CUdeviceptr import(const std::string& way) {
  WindowHandle handle;
  expect(read(up[0], &handle, sizeof handle) == sizeof handle);
  return import_window(way, 0, handle);
}

CUdeviceptr shared_file() {
  std::string name = "/dev/shm/kerncap-peers-" + std::to_string(getpid());
  int fd = open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  expect(fd >= 0 && ftruncate(fd, 16384) == 0);
  void* memory = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  expect(memory != MAP_FAILED);
  unlink(name.c_str());
  std::memcpy(memory, ramp(n, 3).data(), bytes);
  CHECK(cuMemHostRegister(memory, 16384, CU_MEMHOSTREGISTER_DEVICEMAP));
  return reinterpret_cast<CUdeviceptr>(memory);
}

}  // namespace

int main(int argc, char** argv) {
  std::string way = argc > 1 ? argv[1] : "vmm", what = argc > 2 ? argv[2] : "reads";
  expect(pipe(down) == 0 && pipe(up) == 0);
  pid_t other = fork();
  if (other == 0) return child(way, what);
  start(0);
  CUdeviceptr window = import(way), own = upload(ramp(n)), out = allocate(bytes);
  CHECK(cuMemsetD8(out, 0, bytes));
  int count = n;
  if (what == "host") window = shared_file();
  if (what == "writes") out = window;
  if (what == "waits")
    launch(load(PTX_HEAD PTX_WAIT_FOR_FLAG, WAIT_FOR_FLAG), 1, 1, {&window, &out});
  else if (what == "nccl")
    launch(load(PTX_HEAD PTX_NCCL_ALL_REDUCE, NCCL_ALL_REDUCE), 12, 256, {&window, &own, &out, &count});
  else if (what == "lsa")
    launch(load(PTX_HEAD PTX_LSA_SUM, LSA_SUM), 12, 256, {&window, &own, &out, &count, &own});
  else
    launch(load(PTX_HEAD PTX_VECTOR_ADD, VECTOR_ADD), 12, 256, {&window, &own, &out, &count});
  CHECK(cuCtxSynchronize());
  report("out", download<float>(out, n));
  expect(write(down[1], "", 1) == 1);
  int status = 0;
  waitpid(other, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
