// The second module of variables.cu, with variables of the same names.
#include "check.h"

static __device__ int counter[4] = {1000, 1000, 1000, 1000};
__constant__ float table[4] = {100, 200, 300, 400};

__global__ void kc_other(float* out) {
  int i = threadIdx.x;
  counter[i] += 10;
  out[i] = table[i] + counter[i];
}

void run_other(float* out) {
  kc_other<<<1, 4>>>(out);
}
