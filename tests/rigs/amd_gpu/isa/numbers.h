// The number formats of the vector unit. Arithmetic is the host's IEEE arithmetic, whose rounding and
// denormals follow the wave's MODE register (mode.h); formats that the host lacks are converted here.
#ifndef KERNCAP_AMD_GPU_ISA_NUMBERS_H
#define KERNCAP_AMD_GPU_ISA_NUMBERS_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace amd_gpu {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using f16 = _Float16;
using f32 = float;
using f64 = double;

template <class To, class From>
constexpr To as(From value) {
  return std::bit_cast<To>(value);
}

constexpr u32 low32(u64 value) {
  return static_cast<u32>(value);
}
constexpr u32 high32(u64 value) {
  return static_cast<u32>(value >> 32);
}
constexpr u64 join(u32 low, u32 high) {
  return low | static_cast<u64>(high) << 32;
}
constexpr u32 pack(u16 low, u16 high) {
  return low | static_cast<u32>(high) << 16;
}
constexpr u16 half_of(u32 word, bool high) {
  return static_cast<u16>(high ? word >> 16 : word);
}

inline f32 half_to_float(u16 bits) {
  return static_cast<f32>(as<f16>(bits));
}
inline u16 float_to_half(f32 value) {
  return as<u16>(static_cast<f16>(value));
}

// Of numbers that are f16: rounded to f16 it is their fma. The product is exact in an f32. What the sum loses
// makes its last bit sticky (round to odd), which the second rounding then respects.
inline f32 fma_of_halves(f32 a, f32 b, f32 addend) {
  const f32 product = a * b;
  const f32 sum = product + addend, part = sum - product;
  const f32 lost = (product - (sum - part)) + (addend - part);
  const u32 bits = as<u32>(sum);
  // If the sum is NaN, no comparison holds and it stays as it is. Otherwise round to odd: away from zero if
  // the lost part has the sum's sign, else towards zero.
  const u32 up = static_cast<u32>(lost > 0) ^ bits >> 31, down = static_cast<u32>(lost < 0) ^ bits >> 31;
  const u32 inexact = static_cast<u32>(lost > 0) | static_cast<u32>(lost < 0);
  const u32 even = ~bits & inexact & 1;
  return as<f32>(bits + (even & up) - (even & down));
}
inline f16 fma_half(f16 a, f16 b, f16 c) {
  return static_cast<f16>(fma_of_halves(static_cast<f32>(a), static_cast<f32>(b), static_cast<f32>(c)));
}

constexpr f32 bf16_to_float(u16 bits) {
  return as<f32>(static_cast<u32>(bits) << 16);
}
// To nearest, ties to even; a NaN stays one.
inline u16 float_to_bf16(f32 value) {
  const u32 bits = as<u32>(value);
  if (value != value) return static_cast<u16>(bits >> 16 | 0x40);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// What v_min and v_max give in IEEE mode: the number where one is a quiet NaN; -0 below +0.
template <class T, class Bits>
inline T minimum(T a, T b) {
  if (a < b) return a;
  if (b < a) return b;
  if (a == b) return as<T>(static_cast<Bits>(as<Bits>(a) | as<Bits>(b)));
  return a != a ? static_cast<T>(b + 0) : a;
}
template <class T, class Bits>
inline T maximum(T a, T b) {
  if (a > b) return a;
  if (b > a) return b;
  if (a == b) return as<T>(static_cast<Bits>(as<Bits>(a) & as<Bits>(b)));
  return a != a ? static_cast<T>(b + 0) : a;
}
inline f32 min_of(f32 a, f32 b) {
  return minimum<f32, u32>(a, b);
}
inline f32 max_of(f32 a, f32 b) {
  return maximum<f32, u32>(a, b);
}
inline f64 min_of(f64 a, f64 b) {
  return minimum<f64, u64>(a, b);
}
inline f64 max_of(f64 a, f64 b) {
  return maximum<f64, u64>(a, b);
}
inline f16 min_of(f16 a, f16 b) {
  return minimum<f16, u16>(a, b);
}
inline f16 max_of(f16 a, f16 b) {
  return maximum<f16, u16>(a, b);
}
template <class T>
requires std::is_integral_v<T> constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
requires std::is_integral_v<T> constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

template <class T>
inline T middle_of(T a, T b, T c) {
  if constexpr (!std::is_integral_v<T>) {
    if (a != a || b != b || c != c) return min_of(min_of(a, b), c);
  }
  return max_of(min_of(a, b), min_of(max_of(a, b), c));
}

// Float to integer as the vector unit does it: towards zero, out of range to the nearest end, NaN to 0.
template <class Integer, class Real>
inline Integer to_integer(Real value) {
  constexpr Integer lowest = std::numeric_limits<Integer>::min(),
                    highest = std::numeric_limits<Integer>::max();
  const f64 wide = static_cast<f64>(value);
  if (wide != wide) return 0;
  if (wide <= static_cast<f64>(lowest)) return lowest;
  if (wide >= static_cast<f64>(highest)) return highest;
  return static_cast<Integer>(wide);
}

template <class Narrow, class Wide>
constexpr Narrow saturated(Wide value) {
  constexpr Wide lowest = std::numeric_limits<Narrow>::min(), highest = std::numeric_limits<Narrow>::max();
  return static_cast<Narrow>(value < lowest ? lowest : value > highest ? highest : value);
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_NUMBERS_H
