// A kernel that polls a flag in host memory, and a thread that sets it only after driver calls that a
// capture's gate makes wait. Options: "before" launches the chosen kernel (increment) while the polling
// one runs; "itself" has the polling kernel alone; with "through" the thread sets the flag when a launch of
// its own was held, or increment's has returned; with "own" the thread that launches increment sets it.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "client.h"

namespace {

bool is_held(CUfunction nothing, CUdeviceptr x, CUstream stream) {
  int n = 1;
  auto begin = std::chrono::steady_clock::now();
  launch(nothing, 1, 1, {&x, &n}, stream);
  return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(500);
}

}  // namespace

int main(int argc, char** argv) {
  std::string how = argc > 1 ? argv[1] : "before";
  CUcontext context = start();
  CUfunction wait = load(PTX_HEAD PTX_WAIT_FOR_FLAG, WAIT_FOR_FLAG);
  CUfunction increment = load(PTX_HEAD PTX_INCREMENT, INCREMENT);
  void* memory;
  CHECK(cuMemAllocHost(&memory, 64));
  std::memset(memory, 0, 64);
  auto* flag = static_cast<int*>(memory);
  auto address = reinterpret_cast<CUdeviceptr>(memory);
  CUdeviceptr out = allocate(4), x = upload(std::vector<int>{1}), y = upload(std::vector<int>{5});
  CUstream polling, other;
  CHECK(cuStreamCreate(&polling, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  std::atomic<bool> is_launching{false}, has_returned{false};
  CUfunction nothing = load(PTX_HEAD PTX_NOTHING, NOTHING);
  std::thread setter([&] {
    CHECK(cuCtxSetCurrent(context));
    if (how == "own") return;
    while (!__atomic_load_n(flag + 1, __ATOMIC_ACQUIRE)) std::this_thread::yield();  // the kernel runs
    if (how == "through") {
      while (!is_launching.load()) std::this_thread::yield();
      // Few, since the shim remembers the last 64 launches, and the one that waits has to be among them.
      while (!has_returned.load() && !is_held(nothing, out, other))
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
      return;
    }
    // A launch, a copy, an allocation: what the gate holds up.
    launch(increment, 1, 1, {&y}, other);
    int zero = 0;
    CHECK(cuMemcpyHtoDAsync(allocate(4), &zero, 4, other));
    CHECK(cuStreamSynchronize(other));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  });
  if (how != "itself") {
    launch(wait, 1, 1, {&address, &out}, polling);
    CUstream third;
    CHECK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    is_launching.store(true);
    launch(increment, 1, 1, {&x}, third);
    has_returned.store(true);
    if (how == "own") __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  } else {
    launch(wait, 1, 1, {&address, &out}, polling);
    CHECK(cuStreamSynchronize(polling));
    // Afterwards one that can be captured.
    launch(increment, 1, 1, {&x}, polling);
  }
  setter.join();
  CHECK(cuCtxSynchronize());
  report("out", download<int>(out, 1));
  report("x", download<int>(x, 1));
  report("y", download<int>(y, 1));
  return 0;
}
