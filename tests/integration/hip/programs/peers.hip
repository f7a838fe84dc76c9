// Two GPUs: a kernel of one reads the other's memory, and one of the other what was copied to it.
#include "common.h"

__global__ void sums(const int* far, const int* near, int* out) {
  out[threadIdx.x] = far[threadIdx.x] + near[threadIdx.x];
}

__global__ void doubles(int* x) { x[threadIdx.x] *= 2; }

int main() {
  int can = 0;
  CHECK(hipDeviceCanAccessPeer(&can, 0, 1));
  std::printf("access %d\n", can);
  const int n = 64;
  std::vector<int> given(n);
  for (int i = 0; i < n; ++i) given[i] = i * i;
  CHECK(hipSetDevice(1));
  int* far = to_device(given);
  int* moved = zeros<int>(n);
  CHECK(hipSetDevice(0));
  if (!can) return 0;
  CHECK(hipDeviceEnablePeerAccess(1, 0));
  int* near = to_device(std::vector<int>(n, 7));
  int* out = zeros<int>(n);
  sums<<<1, n>>>(far, near, out);
  report("sums", out, n * sizeof(int));
  CHECK(hipMemcpyPeer(moved, 1, out, 0, n * sizeof(int)));
  CHECK(hipSetDevice(1));
  doubles<<<1, n>>>(moved);
  report("doubles", moved, n * sizeof(int));
  return 0;
}
