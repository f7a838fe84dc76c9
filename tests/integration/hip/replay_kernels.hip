// Kernels that the replay of HIP launches is tested with. What each does, numpy says too.
#include <hip/hip_runtime.h>

__device__ int table[64];
__device__ int* table_pointer = table;
__constant__ float factors[4];

extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

extern "C" __global__ void scale_in_place(float* x, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= s;
}

struct Node {
  Node* next;
  long value;
};

extern "C" __global__ void sum_list(const Node* head, long* out) {
  long sum = 0;
  for (const Node* node = head; node; node = node->next) sum += node->value;
  *out = sum;
}

// A variable of the module is read and written, and one that points to another is followed.
extern "C" __global__ void count_in_table(const int* keys, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&table_pointer[keys[i] & 63], 1);
}

static __device__ int unnamed_outside[32];

extern "C" __global__ void count_inside(const int* keys, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&unnamed_outside[keys[i] & 31], 1);
}

extern "C" __global__ void by_factors(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factors[i & 3];
}

// Each workgroup reversed through LDS of a size that the kernel knows, and of one that the launch gives.
extern "C" __global__ void reverse_static(float* x) {
  __shared__ float tile[64];
  float* mine = x + blockIdx.x * 64;
  tile[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void reverse_dynamic(float* x) {
  extern __shared__ float dynamic_tile[];
  float* mine = x + blockIdx.x * blockDim.x;
  dynamic_tile[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = dynamic_tile[blockDim.x - 1 - threadIdx.x];
}

// What the packet (or the hidden arguments) say of the dispatch, work-item by work-item: a partial workgroup has
// fewer of them, so that only the global number tells them all apart.
extern "C" __device__ size_t __ockl_get_global_id(unsigned);

extern "C" __global__ void describe(int* out) {
  size_t i = __ockl_get_global_id(0);
  out[4 * i + 0] = blockDim.x;
  out[4 * i + 1] = gridDim.x;
  out[4 * i + 2] = blockIdx.x;
  out[4 * i + 3] = threadIdx.x;
}

// Indexed by what is only known when it runs: the array lies in scratch memory.
extern "C" __global__ void through_scratch(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int local[96];
  for (int k = 0; k < 96; ++k) local[(k * 5 + n) % 96] = k * k;
  if (i < n) out[i] = local[in[i] % 96];
}

extern "C" __global__ void read_at(const int* const* where, int* out) { out[threadIdx.x] = **where; }

extern "C" __global__ void until_released(volatile int* flag, int* out) {
  while (*flag == 0) {
  }
  *out = 1;
}

extern "C" __global__ void with_printf(int* out) {
  if (out[0] == -1) printf("never\n");
  out[threadIdx.x] = threadIdx.x;
}
