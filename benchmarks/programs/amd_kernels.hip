// Kernels for the emulated AMD GPU: amd_kernels NAME LAUNCHES prints the seconds of processor time that so
// many launches took, after one that is not counted, without the thread that waits; the seconds that passed;
// and a hash of the result.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

constexpr int tile = 16, side = 256, count = 1 << 20;

// The product of ROCm's examples: tiles in LDS, a thread for each result.
__global__ void product(const float* a, const float* b, float* c) {
  __shared__ float a_tile[tile][tile], b_tile[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * tile + y, column = blockIdx.x * tile + x;
  float sum = 0;
  for (int start = 0; start < side; start += tile) {
    a_tile[y][x] = a[row * side + start + x];
    b_tile[y][x] = b[(start + y) * side + column];
    __syncthreads();
    for (int k = 0; k < tile; k++) sum += a_tile[y][k] * b_tile[k][x];
    __syncthreads();
  }
  c[row * side + column] = sum;
}

// The same with the matrix unit: a wave for each 32 by 32 results.
using Halves = _Float16 __attribute__((ext_vector_type(4)));
using Results = float __attribute__((ext_vector_type(16)));
__global__ void matrix(const float* a, const float* b, float* c) {
  const int lane = threadIdx.x, row = blockIdx.y * 32, column = blockIdx.x * 32, at = lane % 32,
            run = lane / 32 * 4;
  Results sums = {};
  for (int start = 0; start < side; start += 8) {
    Halves left, right;
    for (int k = 0; k < 4; k++) {
      left[k] = static_cast<_Float16>(a[(row + at) * side + start + run + k]);
      right[k] = static_cast<_Float16>(b[(start + run + k) * side + column + at]);
    }
    sums = __builtin_amdgcn_mfma_f32_32x32x8f16(left, right, sums, 0, 0, 0);
  }
  for (int r = 0; r < 16; r++) c[(row + r / 4 * 8 + lane / 32 * 4 + r % 4) * side + column + at] = sums[r];
}

__global__ void reduce(const float* a, const float*, float* c) {
  __shared__ float sums[256];
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) sum += a[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (!threadIdx.x) atomicAdd(c, sums[0]);
}

__global__ void blend(const float* a, const float* b, float* c) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < count) c[i] = 2.5f * a[i] + b[i];
}

__global__ void norm(const float* a, const float*, float* c) {
  __shared__ float sums[4];
  const float* row = a + blockIdx.x * 1024;
  float values[4], total = 0;
  for (int k = 0; k < 4; k++) {
    values[k] = expf(row[k * 256 + threadIdx.x]);
    total += values[k];
  }
  for (int by = 32; by; by /= 2) total += __shfl_xor(total, by);
  if (threadIdx.x % 64 == 0) sums[threadIdx.x / 64] = total;
  __syncthreads();
  total = sums[0] + sums[1] + sums[2] + sums[3];
  for (int k = 0; k < 4; k++) c[blockIdx.x * 1024 + k * 256 + threadIdx.x] = values[k] / total;
}

double seconds_of_others() {
  timespec all{}, own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
  return static_cast<double>(all.tv_sec - own.tv_sec) + 1e-9 * static_cast<double>(all.tv_nsec - own.tv_nsec);
}

double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* name = argv[1];
  const int launches = std::atoi(argv[2]);
  std::vector<float> host(count);
  for (int i = 0; i < count; i++) host[i] = static_cast<float>(i * 7919 % 1000) / 1000 - 0.5f;
  float* device[3];
  for (float*& pointer : device) {
    if (hipMalloc(reinterpret_cast<void**>(&pointer), count * sizeof(float))) return 1;
    if (hipMemcpy(pointer, host.data(), count * sizeof(float), hipMemcpyHostToDevice)) return 1;
  }
  auto [a, b, c] = device;
  double start = 0, start_of_wall = 0;
  for (int launch = 0; launch <= launches; launch++) {
    if (launch == 1) start = seconds_of_others(), start_of_wall = seconds_now();
    if (!std::strcmp(name, "product")) product<<<dim3(side / tile, side / tile), dim3(tile, tile)>>>(a, b, c);
    if (!std::strcmp(name, "matrix")) matrix<<<dim3(side / 32, side / 32), 64>>>(a, b, c);
    if (!std::strcmp(name, "reduce")) reduce<<<64, 256>>>(a, b, c);
    if (!std::strcmp(name, "blend")) blend<<<count / 256, 256>>>(a, b, c);
    if (!std::strcmp(name, "norm")) norm<<<count / 1024, 256>>>(a, b, c);
    if (hipDeviceSynchronize()) return 1;
  }
  const double seconds = seconds_of_others() - start, wall = seconds_now() - start_of_wall;
  if (hipMemcpy(host.data(), c, count * sizeof(float), hipMemcpyDeviceToHost)) return 1;
  unsigned long long hash = 0xcbf29ce484222325;
  for (const float value : host) {
    unsigned word;
    std::memcpy(&word, &value, sizeof word);
    hash = (hash ^ word) * 0x100000001b3;
  }
  std::printf("%.6f %.6f %016llx\n", seconds, wall, hash);
}
