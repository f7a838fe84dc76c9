// Kernels on plain arrays: another output, the same one, atomics, tiles in LDS of a fixed and of a given
// size.
#include "common.h"

constexpr int TILE = 16;

__global__ void vector_add(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

__global__ void in_place(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor + 1.0f;
}

__global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[data[i]], 1u);
}

__global__ void tiled_matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    tile_a[y][x] = a[row * n + k + x];
    tile_b[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void dynamic_lds(const float* in, float* out, int n) {
  extern __shared__ float sums[];
  __shared__ float base;
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t == 0) base = 0.5f;
  sums[t] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int distance = blockDim.x / 2; distance > 0; distance /= 2) {
    if (t < distance) sums[t] += sums[t + distance];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0] + base;
}

int main() {
  const int n = 1000, bins = 256, side = 48;
  float *a = to_device(ramp(n, 0.5f)), *b = to_device(ramp(n, 0.25f)), *out = zeros<float>(n);
  vector_add<<<(n + 63) / 64, 64>>>(a, b, out, n);
  report("vector_add", out, n * sizeof(float));

  in_place<<<(n + 127) / 128, 128>>>(out, 3.0f, n);
  report("in_place", out, n * sizeof(float));

  std::vector<unsigned char> data(5000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 37);
  unsigned char* bytes = to_device(data);
  unsigned* counts = zeros<unsigned>(bins);
  histogram<<<4, 128>>>(bytes, counts, static_cast<int>(data.size()));
  report("histogram", counts, bins * sizeof(unsigned));

  float *left = to_device(ramp(side * side, 1.0f)), *right = to_device(ramp(side * side, 0.125f));
  float* product = zeros<float>(side * side);
  tiled_matmul<<<dim3(side / TILE, side / TILE), dim3(TILE, TILE)>>>(left, right, product, side);
  report("tiled_matmul", product, side * side * sizeof(float));

  const int blocks = (n + 255) / 256;
  float* partial = zeros<float>(blocks);
  dynamic_lds<<<blocks, 256, 256 * sizeof(float)>>>(a, partial, n);
  report("dynamic_lds", partial, blocks * sizeof(float));
  return 0;
}
