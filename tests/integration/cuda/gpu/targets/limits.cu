// Kernels that need more than a context allows by default: a deep stack, a large heap.
#include "check.h"

__device__ __noinline__ int deep(int n, int* seen) {
  int own[64];
  for (int i = 0; i < 64; ++i) own[i] = n + i;
  seen[n] = own[n & 63];
  if (n == 0) return 1;
  int below = deep(n - 1, seen);
  return below + own[(below + n) & 63];
}
__global__ void kc_deep(int* out, int* seen, int n) {
  out[0] = deep(n, seen);
}
__global__ void kc_large(int* out) {
  char* own = static_cast<char*>(malloc(1 << 20));
  out[threadIdx.x] = own != nullptr;
  free(own);
}

int main() {
  MUST(cudaDeviceSetLimit(cudaLimitStackSize, 64 << 10));
  MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 256u << 20));
  int* out = on_device(std::vector<int>(64));
  int* seen = on_device(std::vector<int>(101));
  kc_deep<<<1, 1>>>(out, seen, 100);
  report("deep", out, 1);
  kc_large<<<1, 64>>>(out);
  report("large", out, 64);
}
