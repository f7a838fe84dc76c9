// Floating point numbers of 4, 6 and 8 bits. Those of gfx942 ("fnuz") have one NaN (0x80), no negative zero
// and no infinity; those of gfx950 are the Open Compute Project's. Source: AMD Instinct MI300 ISA, section
// "FP8 and BF8"; OCP Microscaling Formats 1.0; LLVM's APFloat.
#ifndef KERNCAP_AMD_GPU_ISA_SMALL_FLOAT_H
#define KERNCAP_AMD_GPU_ISA_SMALL_FLOAT_H

#include <array>

#include "numbers.h"

namespace amd_gpu {

// What a format has besides numbers.
enum class Special {
  fnuz,
  infinity,  // and NaN, as IEEE has them
  nan,       // where all bits but the sign are set
  none,
};

template <int exponent_bits, int mantissa_bits, Special special>
struct SmallFloat {
  static constexpr int bits = 1 + exponent_bits + mantissa_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - (special == Special::fnuz ? 0 : 1);
  static constexpr u32 sign_bit = 1u << (bits - 1), all_ones = sign_bit - 1;
  static constexpr u32 infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  static constexpr u32 largest = special == Special::infinity ? infinity - 1
                                 : special == Special::nan    ? all_ones - 1
                                                              : all_ones;

  static f32 decode(u32 code) { return table()[code & (2 * sign_bit - 1)]; }

  // To nearest even, or stochastically: `random` (32 bits) is added below the last kept bit of a source with
  // `source_mantissa` bits of mantissa. Overflow, infinity included, gives NaN or infinity if the format has
  // one, and the largest number if it has none or with `saturate`.
  static u32 encode(f64 value, bool saturate, const u32* random = nullptr, int source_mantissa = 23) {
    const u32 sign = std::signbit(value) ? sign_bit : 0;
    if (value != value) return nan(sign);
    const f64 magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return special == Special::fnuz ? nan(sign) : too_large(sign, saturate);
    if (magnitude == 0) return special == Special::fnuz ? 0 : sign;
    int exponent = std::ilogb(magnitude);
    if (exponent < 1 - bias) exponent = 1 - bias;
    // The number in units of its last kept place.
    const f64 scaled = std::ldexp(magnitude, mantissa_bits - exponent);
    const f64 whole = std::floor(scaled), part = scaled - whole;
    const u64 units =
        static_cast<u64>(whole) + (random ? carries(part, *random, source_mantissa - mantissa_bits)
                                          : part > 0.5 || (part == 0.5 && std::fmod(whole, 2) != 0));
    // Carries of the mantissa run into the exponent, as the encoding has them side by side.
    const i64 code = static_cast<i64>(units) + (static_cast<i64>(exponent - 1 + bias) << mantissa_bits);
    if (code > i64{largest}) return too_large(sign, saturate);
    return code == 0 && special == Special::fnuz ? 0 : sign | static_cast<u32>(code);
  }

 private:
  static u32 nan(u32 sign) {
    switch (special) {
      case Special::fnuz:
        return sign_bit;
      case Special::infinity:
        return sign | (all_ones - 1);
      default:
        return sign | all_ones;
    }
  }
  static u32 too_large(u32 sign, bool saturate) {
    if (saturate || special == Special::none) return sign | largest;
    return special == Special::infinity ? sign | infinity : nan(sign);
  }
  static bool carries(f64 part, u32 random, int dropped_bits) {
    return std::floor(std::ldexp(part, dropped_bits)) + (random >> (32 - dropped_bits)) >=
           static_cast<f64>(u64{1} << dropped_bits);
  }

  static f32 decode_slowly(u32 code) {
    const u32 magnitude = code & all_ones;
    if (special == Special::fnuz ? code == sign_bit : special == Special::nan && magnitude == all_ones)
      return std::numeric_limits<f32>::quiet_NaN();
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const u32 mantissa = magnitude & ((1u << mantissa_bits) - 1);
    f32 value;
    if (special == Special::infinity && magnitude >= infinity) {
      value = mantissa ? std::numeric_limits<f32>::quiet_NaN() : std::numeric_limits<f32>::infinity();
    } else {
      const u32 digits = exponent ? mantissa | 1u << mantissa_bits : mantissa;
      value = std::ldexp(static_cast<f32>(digits), (exponent ? exponent : 1) - bias - mantissa_bits);
    }
    return code & sign_bit ? -value : value;
  }
  static const std::array<f32, 2 * sign_bit>& table() {
    static const std::array<f32, 2 * sign_bit> values = [] {
      std::array<f32, 2 * sign_bit> made;
      for (u32 code = 0; code < made.size(); code++) made[code] = decode_slowly(code);
      return made;
    }();
    return values;
  }
};

using Fp8Fnuz = SmallFloat<4, 3, Special::fnuz>;
using Bf8Fnuz = SmallFloat<5, 2, Special::fnuz>;
using Fp8 = SmallFloat<4, 3, Special::nan>;
using Bf8 = SmallFloat<5, 2, Special::infinity>;
using Fp6 = SmallFloat<2, 3, Special::none>;
using Bf6 = SmallFloat<3, 2, Special::none>;
using Fp4 = SmallFloat<2, 1, Special::none>;

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_SMALL_FLOAT_H
