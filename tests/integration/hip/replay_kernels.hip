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
  const unsigned i = threadIdx.x;
  if (i % 16 == 0)
    printf("%s %u of %5lld: %-8.3f|%*d|%c%%\n", i ? "lane" : "first", i, 1LL << 40, i / 3.0, 4, -7, 'x');
  out[i] = i;
}

extern "C" __global__ void with_malloc(int* out) {
  __shared__ int* made[64];
  const unsigned i = threadIdx.x;
  made[i] = static_cast<int*>(malloc(i % 2 ? 16 : 100000));
  if (made[i]) *made[i] = i;
  __syncthreads();
  out[i] = made[63 - i] ? *made[63 - i] : -1;
  __syncthreads();
  free(made[i]);
}

// What grid.sync() of gfx942 does by the counters that the runtime passes: the compiler here makes another one.
struct Counters {
  void* other_grids;
  unsigned number, grids;
  unsigned long before, all;
  unsigned arrived, unused, groups;
};

extern "C" __global__ void across_the_grid(int* out) {
  auto* counters = static_cast<Counters*>(((void**)__builtin_amdgcn_implicitarg_ptr())[6]);
  out[blockIdx.x] = blockIdx.x + 1;
  __threadfence();
  if (threadIdx.x == 0) {
    atomicAdd(&counters->arrived, 1);
    while (atomicAdd(&counters->arrived, 0) < counters->groups) __builtin_amdgcn_s_sleep(1);
  }
  __syncthreads();
  int sum = 0;
  for (unsigned k = 0; k < gridDim.x; k++) sum += atomicAdd(&out[k], 0);
  out[gridDim.x + blockIdx.x] = sum + static_cast<int>(counters->all) + counters->grids;
}
