// Sums of rows, with numbers that a search may change: one is right as any power of two, one as it is only.
#include "check.h"

#define STEP 2

template <int WIDTH>
__global__ void row_sums(const float* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x * WIDTH; i < columns; i += blockDim.x * WIDTH)
    for (int k = 0; k < WIDTH; ++k) sum += x[blockIdx.x * columns + i + k];
  for (int lane = 16; lane > 0; lane /= STEP) sum += __shfl_xor_sync(~0u, sum, lane);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

int main() {
  const int rows = 256, columns = 4096;
  const float* x = on_device(numbers<float>(rows * columns, 5));
  float* y = on_device(std::vector<float>(rows));
  row_sums<4><<<rows, 32>>>(x, y, columns);
  MUST(cudaGetLastError());
  report("sums", y, rows);
}
