// Functions of one real number that several widths share.
#ifndef KERNCAP_AMD_GPU_ISA_REAL_H
#define KERNCAP_AMD_GPU_ISA_REAL_H

#include "lanes.h"

namespace amd_gpu {

// A denormal becomes a zero of its sign.
inline f32 flushed(f32 value) {
  return std::fabs(value) < std::numeric_limits<f32>::min() ? std::copysign(0.0f, value) : value;
}

inline f64 sine_of_turns(f64 turns) {
  return std::sin((turns - std::floor(turns)) * 6.283185307179586);
}
inline f64 cosine_of_turns(f64 turns) {
  return std::cos((turns - std::floor(turns)) * 6.283185307179586);
}

// Below 1, also where the difference would round to it.
template <class T>
T fraction(T value, T below_one) {
  if (value != value || std::isinf(value))
    return std::isinf(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  const T part = value - std::floor(value);
  return part < below_one ? part : below_one;
}

// To nearest even, whatever MODE says.
template <class T>
T round_even(T value) {
  if constexpr (sizeof(T) == 4)
    return __builtin_roundevenf(value);
  else
    return __builtin_roundeven(value);
}

template <class T>
T mantissa_of(T value) {
  int exponent = 0;
  return std::isfinite(value) ? std::frexp(value, &exponent) : value;
}
template <class T>
i32 exponent_of(T value) {
  int exponent = 0;
  if (std::isfinite(value) && value != 0) std::frexp(value, &exponent);
  return exponent;
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_REAL_H
