// A project of several files: two headers of one base name, one from an include folder, options that matter,
// and a kernel of an installed library.
#include "one/shape.h"
#include "two/shape.h"

#include <gain.h>

#include <hip/hip_runtime.h>
#include <outer/outer.hpp>

#include <cstdio>
#include <vector>

template <class T>
__global__ void blend(const T* x, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = one::shaped(x[i]) * GAIN + two::shaped(x[i]) + OFFSET;
}

int main() {
  const int n = 500;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = static_cast<float>(i % 23) - 11.0f;
  float *x = nullptr, *out = nullptr;
  if (hipMalloc(reinterpret_cast<void**>(&x), n * sizeof(float)) != hipSuccess ||
      hipMalloc(reinterpret_cast<void**>(&out), n * sizeof(float)) != hipSuccess)
    return 1;
  (void)hipMemcpy(x, host.data(), n * sizeof(float), hipMemcpyHostToDevice);
  (void)hipMemset(out, 0, n * sizeof(float));
  blend<float><<<(n + 63) / 64, 64>>>(x, out, n);
  outer::triple(out, x, n);
  if (hipMemcpy(host.data(), out, n * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("out[7] = %g\n", host[7]);
  return 0;
}
