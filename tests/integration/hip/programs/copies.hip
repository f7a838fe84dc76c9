// A copy by the DMA engines, a kernel and a copy back, in order; smaller copies are kernels of the runtime.
#include "common.h"

__global__ void add_one(float* x, int n) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += 1;
}

int main() {
  constexpr int n = 1 << 16;
  constexpr size_t bytes = n * sizeof(float);
  float *host = nullptr, *device = nullptr;
  CHECK(hipHostMalloc(reinterpret_cast<void**>(&host), bytes, 0));
  CHECK(hipMalloc(reinterpret_cast<void**>(&device), bytes));
  for (int i = 0; i < n; ++i) host[i] = static_cast<float>(i);
  CHECK(hipMemcpyAsync(device, host, bytes, hipMemcpyHostToDevice, nullptr));
  add_one<<<1, 64>>>(device, n);
  CHECK(hipMemcpyAsync(host, device, bytes, hipMemcpyDeviceToHost, nullptr));
  CHECK(hipDeviceSynchronize());
  print("add_one", device, host, bytes);
}
