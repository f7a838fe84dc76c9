// Two kernels on two streams, joined as the argument says. `held` runs until the host lets it go, so that HIP
// has to make a stream wait: for an event that is over it does nothing.
#include "common.h"

#include <cstring>

__global__ void filled(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = static_cast<float>(i);
}

__global__ void held(volatile int* go) {
  while (*go == 0) {
  }
}

__global__ void doubled(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.0f;
}

int main(int, char** arguments) {
  constexpr int n = 256;
  float *x = zeros<float>(n), *y = zeros<float>(n);
  int* go = nullptr;
  CHECK(hipHostMalloc(reinterpret_cast<void**>(&go), sizeof *go, hipHostMallocCoherent));
  *go = 0;
  hipStream_t stream, other;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  CHECK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  hipEvent_t event;
  CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  bool is_early = std::strcmp(arguments[1], "early") == 0;
  CHECK(hipDeviceSynchronize());
  if (!is_early) filled<<<n / 64, 64, 0, stream>>>(x, n);
  held<<<1, 1, 0, stream>>>(go);
  if (std::strcmp(arguments[1], "host") != 0) {
    CHECK(hipEventRecord(event, stream));
    CHECK(hipStreamWaitEvent(other, event, 0));
  }
  *static_cast<volatile int*>(go) = 1;
  if (is_early) filled<<<n / 64, 64, 0, stream>>>(x, n);
  if (std::strcmp(arguments[1], "event") != 0) CHECK(hipStreamSynchronize(stream));
  doubled<<<n / 64, 64, 0, other>>>(x, y, n);
  report("doubled", y, n * sizeof(float));
  return 0;
}
