// A kernel on the agent's queue for cooperative launches.
#include "common.h"

extern "C" __global__ void halve(float* x) {
  x[blockIdx.x * 64 + threadIdx.x] *= 0.5f;
}

int main() {
  float* x = to_device(ramp(128, 3));
  void* arguments[] = {&x};
  CHECK(hipLaunchCooperativeKernel(reinterpret_cast<const void*>(halve), dim3(2), dim3(64), arguments, 0,
                                   nullptr));
  report("halve", x, 128 * sizeof(float));
  return 0;
}
