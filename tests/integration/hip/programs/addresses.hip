// A kernel that leaves addresses of functions in memory, in a code object with no variable.
#include "common.h"

using Op = float (*)(float, float);

__device__ __attribute__((noinline)) float add(float a, float b) {
  return a + b;
}
__device__ __attribute__((noinline)) float times(float a, float b) {
  return a * b;
}

extern "C" __global__ void store(Op* ops) {
  const int i = threadIdx.x;
  ops[i] = i & 1 ? times : add;
}

int main() {
  auto* ops = zeros<Op>(64);
  store<<<1, 64>>>(ops);
  CHECK(hipDeviceSynchronize());
  return 0;
}
