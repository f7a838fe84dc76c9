#pragma once
#include <hip/hip_runtime.h>

#include "../config.hpp"

namespace inner {
namespace detail {
template <unsigned block, class T, class F>
INNER_KERNEL __launch_bounds__(block) void transform_kernel(const T* in, T* out, int n, F f) {
  int i = blockIdx.x * block + threadIdx.x;
  if (i < n) out[i] = f(in[i]);
}
}  // namespace detail
}  // namespace inner
