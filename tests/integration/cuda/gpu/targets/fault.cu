// Launch 37 of 50 follows a pointer out of bounds.
#include "check.h"

__global__ void kc_gather(const float* x, const long* index, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[index[i]];
}

int main() {
  const int n = 4096;
  float *x = on_device(numbers<float>(n, 1)), *y = on_device(std::vector<float>(n));
  std::vector<long> good(n), bad;
  for (int i = 0; i < n; ++i) good[i] = n - 1 - i;
  bad = good;
  bad[1234] = 1l << 44;
  long *fine = on_device(good), *broken = on_device(bad);
  for (int k = 0; k < 50; ++k) {
    kc_gather<<<n / 256, 256>>>(x, k == 37 ? broken : fine, y, n);
    cudaError_t status = cudaDeviceSynchronize();
    if (status != cudaSuccess) {
      std::printf("launch %d: %s\n", k, cudaGetErrorName(status));
      return 7;
    }
  }
  std::printf("no fault\n");
}
