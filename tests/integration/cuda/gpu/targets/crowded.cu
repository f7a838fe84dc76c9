// 60 GiB in allocations of 1 GiB, and a kernel that touches 8 MiB in two of its own.
// An argument gives another number of GiB.
#include "check.h"

__global__ void kc_touch(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 3 + 1;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 60;
  const int n = 1 << 20;
  std::vector<void*> others(count);
  for (int k = 0; k < count / 2; ++k) MUST(cudaMalloc(&others[k], size_t(1) << 30));
  float *x = on_device(numbers<float>(n, 1)), *y = on_device(std::vector<float>(n));
  for (int k = count / 2; k < count; ++k) MUST(cudaMalloc(&others[k], size_t(1) << 30));
  for (int k = 0; k < 2; ++k) kc_touch<<<n / 256, 256>>>(x, y, n);
  report("touch", y, n);
  for (void* other : others) MUST(cudaFree(other));
}
