// Kernels that no replay repeats bit by bit, or that have nothing to compare; each has an output that can be
// judged, too.
#include "check.h"

__global__ void kc_clock(const float* x, float* y, long long* times, unsigned* where) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
  if (threadIdx.x) return;
  unsigned sm, low;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(low));
  times[blockIdx.x] = clock64();
  where[2 * blockIdx.x] = sm;
  where[2 * blockIdx.x + 1] = low;
}

__global__ void kc_arrival(const float* x, float* y, unsigned* tickets, unsigned* order, unsigned* last) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 3 * x[i];
  if (threadIdx.x) return;
  unsigned ticket = atomicAdd(tickets, 1u);
  order[blockIdx.x] = ticket;
  if (ticket == gridDim.x - 1) *last = blockIdx.x;
}

__global__ void kc_sum(const double* x, double* sums, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = static_cast<float>(x[i]);
  atomicAdd(&sums[i % 61], x[i] / 3);
}

__global__ void kc_own_heap(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int* own = new int[4];
  for (int k = 0; k < 4; ++k) own[k] = x[i] + k;
  y[i] = own[0] + own[3];
  delete[] own;
}

__global__ void kc_make(int** made) {
  made[threadIdx.x] = new int[1]{static_cast<int>(threadIdx.x)};
}
__global__ void kc_use(int** made, int* y) {
  y[threadIdx.x] = *made[threadIdx.x] + 5;
}
__global__ void kc_free(int** made) {
  delete[] made[threadIdx.x];
}

__global__ void kc_print(int n) {
  if (!threadIdx.x) printf("printed %d\n", n);
}
__global__ void kc_tell(int* y, int n) {
  y[threadIdx.x] = n * static_cast<int>(threadIdx.x);
  if (threadIdx.x == 31) printf("last is %d\n", y[31]);
}
__global__ void kc_empty() {}

// Writes back what is there unless the mask says otherwise, which it does nowhere.
__global__ void kc_masked(float* x, const unsigned char* mask) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = mask[i] ? 0.0f : x[i];
}
__global__ void kc_zero(float* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = 0;
}
// The same where the memory beside it steers addresses.
__global__ void kc_steered(const int* at, float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[at[i]] = 0;
}

int main() {
  const int n = 1 << 14, blocks = n / 64;
  float* x = on_device(numbers<float>(n, 1));
  float* y = on_device(std::vector<float>(n));
  long long* times = on_device(std::vector<long long>(blocks));
  unsigned* words = on_device(std::vector<unsigned>(2 * blocks));
  kc_clock<<<blocks, 64>>>(x, y, times, words);
  report("clock", y, n);

  unsigned* tickets = on_device(std::vector<unsigned>(1));
  unsigned* order = on_device(std::vector<unsigned>(blocks));
  unsigned* last = on_device(std::vector<unsigned>(1));
  kc_arrival<<<blocks, 64>>>(x, y, tickets, order, last);
  report("arrival", y, n);

  double* d = on_device(numbers<double>(n, 3));
  double* sums = on_device(std::vector<double>(61));
  kc_sum<<<blocks, 64>>>(d, sums, y);
  report("sum", y, n);

  int* ints = on_device(numbers<int>(n, 4));
  int* results = on_device(std::vector<int>(n));
  kc_own_heap<<<blocks, 64>>>(ints, results, n);
  report("own_heap", results, n);

  int** made = on_device(std::vector<int*>(64));
  kc_make<<<1, 64>>>(made);
  kc_use<<<1, 64>>>(made, results);
  report("use", results, 64);
  kc_free<<<1, 64>>>(made);

  kc_print<<<1, 32>>>(17);
  kc_tell<<<1, 32>>>(results, 3);
  report("tell", results, 32);
  kc_empty<<<1, 32>>>();

  unsigned char* mask = on_device(std::vector<unsigned char>(n));
  kc_masked<<<blocks, 64>>>(x, mask);
  report("masked", x, n);
  float* zeros = on_device(std::vector<float>(n));
  kc_zero<<<blocks, 64>>>(zeros);
  std::vector<int> reversed(n);
  for (int i = 0; i < n; ++i) reversed[i] = n - 1 - i;
  int* at = on_device(reversed);
  kc_steered<<<blocks, 64>>>(at, zeros);
  report("zeros", zeros, n);
  MUST(cudaDeviceSynchronize());
}
