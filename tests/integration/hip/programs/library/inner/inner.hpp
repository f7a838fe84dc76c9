#pragma once
#include "device/transform.hpp"

namespace inner {
template <class T, class F>
void transform(const T* in, T* out, int n, F f) {
  detail::transform_kernel<64><<<(n + 63) / 64, 64>>>(in, out, n, f);
}
}  // namespace inner
