// A launch whose closure is 1 MiB: two inputs and an output.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void kc_megabyte(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] * 2 + b[i];
}

int main() {
  const int n = (1 << 20) / 3 / 4 / 256 * 256;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = float(i % 777);
  float* part[3];
  for (float*& p : part) {
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) return 3;
    if (cudaMemcpy(p, host.data(), n * sizeof(float), cudaMemcpyHostToDevice) != cudaSuccess) return 3;
  }
  kc_megabyte<<<n / 256, 256>>>(part[0], part[1], part[2], n);
  if (cudaMemcpy(host.data(), part[2], n * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 3;
  std::printf("%.1f\n", host[n - 1]);
}
