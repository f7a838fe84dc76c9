// A kernel that asks the host for memory while it runs, and gives it back: too much for the device's own
// heap.
#include "common.h"

__global__ void reversed(const int* in, int* out) {
  __shared__ int* room;
  const unsigned i = threadIdx.x;
  if (i == 0) room = static_cast<int*>(malloc(1 << 20));
  __syncthreads();
  room[i] = in[i];
  __syncthreads();
  out[i] = room[blockDim.x - 1 - i];
  __syncthreads();
  if (i == 0) free(room);
}

int main() {
  const int n = 256;
  std::vector<int> given(n);
  for (int i = 0; i < n; ++i) given[i] = i * i;
  int* out = zeros<int>(n);
  reversed<<<1, n>>>(to_device(given), out);
  report("reversed", out, n * sizeof(int));
  return 0;
}
