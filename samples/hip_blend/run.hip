// out = 2.5 * x + y, checked against the host. Needs hipcc and an AMD GPU.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void blend(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.5f * x[i] + y[i];
}

static void check(hipError_t status) {
  if (status == hipSuccess) return;
  std::printf("hip_blend: %s\n", hipGetErrorString(status));
  std::exit(1);
}

int main() {
  const int n = 10000;
  std::vector<float> x(n), y(n), out(n);
  for (int i = 0; i < n; i++) x[i] = i % 64, y[i] = i % 7;
  float* memory = nullptr;
  check(hipMalloc(reinterpret_cast<void**>(&memory), 3 * n * sizeof(float)));
  check(hipMemcpy(memory, x.data(), n * sizeof(float), hipMemcpyHostToDevice));
  check(hipMemcpy(memory + n, y.data(), n * sizeof(float), hipMemcpyHostToDevice));
  blend<<<(n + 255) / 256, 256>>>(memory, memory + n, memory + 2 * n, n);
  check(hipMemcpy(out.data(), memory + 2 * n, n * sizeof(float), hipMemcpyDeviceToHost));
  int right = 0;
  for (int i = 0; i < n; i++) right += out[i] == 2.5f * x[i] + y[i];
  std::printf("hip_blend: %d of %d values are right\n", right, n);
  return right != n;
}
