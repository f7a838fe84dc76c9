// Kernels that write to other ranks' memory and wait for what others write to theirs. A window has a rank's
// values, room for what another rank puts there, and flags, one for each block and rank, that hold the round.
#ifndef KERNCAP_TARGETS_RANKS_KERNELS_H
#define KERNCAP_TARGETS_RANKS_KERNELS_H

constexpr int room_at = 512 << 10, flags_at = 1 << 20;  // bytes into a window
constexpr int tile = 16;

struct Window {
  char* base;
  __device__ float* values() const { return reinterpret_cast<float*>(base); }
  __device__ float* room() const { return reinterpret_cast<float*>(base + room_at); }
  __device__ int* flag(int number) const { return reinterpret_cast<int*>(base + flags_at) + number; }
};

__device__ void raise(int* flag, int round) {
  asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(flag), "r"(round) : "memory");
}

__device__ void wait_for(const int* flag, int round) {
  int seen;
  do asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  while (seen < round);
}

// Every rank adds up all ranks' values.
extern "C" __global__ void all_reduce(const Window* windows, float* out, int rank, int ranks, int n,
                                      int round) {
  __shared__ int joined;
  const int other = threadIdx.x;
  if (other == 0) joined = 0;
  __syncthreads();
  if (other < ranks) {
    raise(windows[other].flag(blockIdx.x * ranks + rank), round);
    wait_for(windows[rank].flag(blockIdx.x * ranks + other), round);
    atomicAdd(&joined, 1);
  }
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || joined != ranks) return;
  float sum = 0;
  for (int from = 0; from < ranks; ++from) sum += __ldcv(windows[from].values() + i);
  out[i] = sum;
}

// Puts its values into the next rank's room, and adds those that came from the previous one.
extern "C" __global__ void ring_step(Window mine, Window next, float* out, int n, int round) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) next.room()[i] = mine.values()[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    raise(next.flag(blockIdx.x), round);
    wait_for(mine.flag(blockIdx.x), round);
  }
  __syncthreads();
  if (i < n) out[i] = mine.values()[i] + __ldcv(mine.room() + i);
}

// out = values x values^T of this rank plus that of the previous one: each tile is put there as soon as it is
// made.
extern "C" __global__ void matmul_put(Window mine, Window next, float* out, int n, int round) {
  __shared__ float rows[tile][tile], columns[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * tile + y, column = blockIdx.x * tile + x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    rows[y][x] = mine.values()[row * n + k + x];
    columns[y][x] = mine.values()[(blockIdx.x * tile + y) * n + k + x];
    __syncthreads();
    for (int j = 0; j < tile; ++j) sum += rows[y][j] * columns[x][j];
    __syncthreads();
  }
  next.room()[row * n + column] = sum;
  __threadfence_system();
  __syncthreads();
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  if (x == 0 && y == 0) {
    raise(next.flag(block), round);
    wait_for(mine.flag(block), round);
  }
  __syncthreads();
  out[row * n + column] = sum + __ldcv(mine.room() + row * n + column);
}

#endif  // KERNCAP_TARGETS_RANKS_KERNELS_H
