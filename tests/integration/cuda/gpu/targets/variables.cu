// Variables of two modules, some of one name; one that holds a pointer; one of constant memory.
#include "check.h"

static __device__ int counter[4] = {1, 2, 3, 4};
__constant__ float table[4];
__device__ const float* from_variable;
namespace {
__device__ double hidden = 0.25;
}

__global__ void kc_variables(float* out) {
  __shared__ float tile[4];
  int i = threadIdx.x;
  tile[i] = from_variable[i];
  __syncthreads();
  counter[i] *= 2;
  out[i] = table[i] + counter[i] + tile[3 - i] + float(hidden);
  if (i == 0) hidden *= 2;
}

__global__ void kc_untouched(float* out) {
  out[threadIdx.x] = float(threadIdx.x);
}

void run_other(float* out);

int main() {
  const float values[4] = {0.5f, 1.5f, 2.5f, 3.5f};
  MUST(cudaMemcpyToSymbol(table, values, sizeof values));
  const float* pointed = on_device(std::vector<float>{10, 20, 30, 40});
  MUST(cudaMemcpyToSymbol(from_variable, &pointed, sizeof pointed));
  float* out = on_device(std::vector<float>(4));
  for (int k = 0; k < 3; ++k) {
    kc_variables<<<1, 4>>>(out);
    report("variables", out, 4);
    run_other(out);
    report("other", out, 4);
    kc_untouched<<<1, 4>>>(out);
  }
  report("untouched", out, 4);
}
