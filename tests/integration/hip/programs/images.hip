// Kernels whose code reads images: itself, and in a function that it calls. None is read, for the emulated
// GPU has none.
#include "common.h"

__device__ float texel(const float* from) {
  float value = 0;
#ifdef __HIP_DEVICE_COMPILE__
  if (from == nullptr)
    asm volatile("image_load %0, v[0:1], s[0:7] dmask:0x1 unorm\n s_waitcnt vmcnt(0)" : "=v"(value));
#endif
  return value;
}

__device__ __noinline__ float called(const float* from) {
  return texel(from) + 1;
}

__global__ void samples(float* to) {
  to[threadIdx.x] = texel(to);
}

__global__ void calls(float* to) {
  to[threadIdx.x] = called(to);
}

// The pattern of an image instruction, in a number.
__global__ void plain(float* to) {
  reinterpret_cast<unsigned*>(to)[threadIdx.x] ^= 0xf0f0f0f0;
}

int main() {
  float* to = zeros<float>(64);
  samples<<<1, 64>>>(to);
  calls<<<1, 64>>>(to);
  plain<<<1, 64>>>(to);
  report("plain", to, 64 * sizeof(float));
  return 0;
}
