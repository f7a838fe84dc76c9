// A client of the stand-in driver: for each line of input, one batch of launches of a kernel without
// parameters; answers with the nanoseconds that one launch call took. The stream is kept from running them
// meanwhile, so that a call does nothing but queue.
#include <cuda.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "rig.h"

static std::atomic<bool> released{false};

extern "C" void rig_kernel_kc_wait(const rig_launch*) {
  while (!released.load()) std::this_thread::yield();
}
extern "C" void rig_kernel_kc_nothing(const rig_launch*) {}

static void must(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(status));
  std::exit(3);
}
#define MUST(call) must((call), #call)

static const char* const PTX =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry kc_wait()\n{\n  ret;\n}\n"
    ".visible .entry kc_nothing()\n{\n  ret;\n}\n";

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 1000;
  MUST(cuInit(0));
  CUcontext context;
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  CUmodule module;
  MUST(cuModuleLoadData(&module, PTX));
  CUfunction wait, nothing;
  MUST(cuModuleGetFunction(&wait, module, "kc_wait"));
  MUST(cuModuleGetFunction(&nothing, module, "kc_nothing"));
  CUstream stream;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  auto batch = [&] {
    released.store(false);
    MUST(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < launches; ++k) {
      MUST(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    }
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    released.store(true);
    MUST(cuStreamSynchronize(stream));
    return spent.count() / launches;
  };

  batch();
  // The stream's thread is there by now, and stays where it is.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof one, &one);
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    std::printf("%.3f\n", batch());
    std::fflush(stdout);
  }
}
