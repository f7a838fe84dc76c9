// A kernel that faults, for `kerncap from-core`. fault illegal | assert | trap | store
#include <hip/hip_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstring>

struct Table {
  const float* values;
  int wrong;  // index of the thread that reads beyond all memory
};

__device__ __noinline__ float pick(const float* in, long at) {
  return in[at];
}

__global__ void scale(float* out, Table table, float by, int n) {
  __shared__ float part[64];
  const int i = blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  part[i % 64] = by;
  __syncthreads();
  if (i >= n) return;
  const long at = i == table.wrong ? i + (1L << 40) : i;
  out[i] = part[i % 64] * pick(table.values, at);
}

__global__ void check(const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(in[i] < static_cast<float>(n) - 20);
}

__global__ void stop(float* out, int at) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = static_cast<float>(i);
  if (i == at) __builtin_trap();
}

__global__ void put(float* out, int wrong, long by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i == wrong ? i + by : i] = static_cast<float>(i);
}

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "illegal";
  float *in = nullptr, *out = nullptr;
  (void)hipMalloc(&in, 256 * sizeof(float));
  (void)hipMalloc(&out, 256 * sizeof(float));
  float values[256];
  for (int i = 0; i < 256; ++i) values[i] = static_cast<float>(i);
  (void)hipMemcpy(in, values, sizeof values, hipMemcpyHostToDevice);
  if (strcmp(what, "assert") == 0) check<<<4, 64>>>(in, 256);
  else if (strcmp(what, "trap") == 0) stop<<<4, 64>>>(out, 100);
  else if (strcmp(what, "store") == 0) put<<<4, 64>>>(out, 100, 1L << 40);
  else scale<<<dim3(2), dim3(32, 4)>>>(out, {in, 165}, 2.0f, 256);
  std::printf("%s\n", hipGetErrorString(hipDeviceSynchronize()));
}
