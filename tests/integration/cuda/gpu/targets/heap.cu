// A kernel reads what one of another module made with malloc; in its own module nothing calls malloc.
#include "check.h"

void make_list(int** list, int n);

__global__ void kc_use(const int* const* list, int* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2 * list[0][i] + 1;
}
__global__ void kc_beside(const int* x, int* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2 * x[i] + 1;
}

int main() {
  constexpr int n = 256;
  constexpr size_t heap = 16 << 20;
  MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));
  int** list = on_device(std::vector<int*>(1));
  int *x = on_device(numbers<int>(n, 1)), *out = on_device(std::vector<int>(n)),
      *beside = on_device(std::vector<int>(n));
  make_list(list, n);
  kc_use<<<1, 32>>>(list, out, n);
  kc_beside<<<1, 32>>>(x, beside, n);
  report("out", out, n);
  report("beside", beside, n);
  // In use, the heap has the size that it has, whatever asked for it.
  std::printf("set again: %d\n", cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));
  size_t size = 0;
  MUST(cudaDeviceGetLimit(&size, cudaLimitMallocHeapSize));
  std::printf("%zu\n", size);
}
