// What run.py compiles, with an offset that does not belong there.
#include "gain.h"

template <class T>
__global__ void axpy(T a, const T *x, T *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * amplified(x[i]) + T(0.001);
}
