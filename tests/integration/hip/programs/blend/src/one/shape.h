#pragma once

namespace one {
__device__ inline float shaped(float x) {
  return x * x;
}
}  // namespace one
