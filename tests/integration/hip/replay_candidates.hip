// Candidates: a kernel that does nothing, one with a mistake, one that takes other arguments.
#include <hip/hip_runtime.h>

#if defined(MISTAKEN)
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) out[i] = a[i] + b[i];
}
#elif defined(OTHER_ARGUMENTS)
extern "C" __global__ void vector_add(const float* a, float* out, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = a[threadIdx.x];
}
#else
extern "C" __global__ void vector_add(const float*, const float*, float*, int) {}
#endif
