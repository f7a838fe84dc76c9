// f32 arithmetic of VOP1, VOP2 and VOP3.
// Source: AMD Instinct MI300 ISA, "VOP1 Instructions", "VOP2 Instructions", "VOP3A & VOP3B Instructions".
#include "mode.h"
#include "real.h"

namespace amd_gpu {
namespace {

// a * 2^b with one rounding: the product is exact in f64, and what is beyond these powers is zero or infinite
// anyhow.
f32 times_power(f32 a, i32 b) {
  const i64 by = b < -600 ? -600 : b > 600 ? 600 : b;
  return static_cast<f32>(static_cast<f64>(a) * as<f64>(static_cast<u64>(by + 1023) << 52));
}

// 2^x as the C library has it, where that is sure: near the middle between two numbers the library's own
// error decides. Lanes that are not sure, or not ordinary, are left to it.
struct Powers {
  Lanes<f32> value;
  u64 sure;
};
// 2^y for |y| <= 1/2, with an error of at most 2^-34: the polynomial of Chebyshev's points.
constexpr std::array<f64, 8> polynomial{0x1.ffffffffa7135p-1,  0x1.62e42fef9cc69p-1, 0x1.ebfbe0aa03df0p-3,
                                        0x1.c6b08da70cce3p-5,  0x1.3b29d8bb0b97ep-7, 0x1.5d877598350dep-10,
                                        0x1.446c79efd4834p-13, 0x1.00c0e4e15189cp-16};
Powers powers_of_two(const f32* from) {
  // What an f32 has no place for. The polynomial is right to 1/1024 of the last place, the C library to 1/512
  // ("0.502 ULP", glibc).
  constexpr u32 lost = (u32{1} << (52 - 23)) - 1, middle = (lost + 1) / 2, close = middle >> 7;
  Powers powers;
  Lanes<u32> sure;
  for (unsigned l = 0; l < lanes; l++) {
    const bool ordinary = (as<u32>(from[l]) & 0x7fffffff) < as<u32>(126.0f);
    const f64 x = static_cast<f64>(ordinary ? from[l] : 0.0f);
    // The nearest whole number is in the lowest bits of such a sum.
    const f64 shifted = x + 0x1.8p52, y = x - (shifted - 0x1.8p52);
    f64 sum = polynomial.back();
#pragma GCC unroll 7
    for (unsigned k = polynomial.size() - 1; k--;) sum = std::fma(sum, y, polynomial[k]);
    const u64 bits = as<u64>(sum) + (as<u64>(shifted) << 52);
    powers.value[l] = static_cast<f32>(as<f64>(bits));
    const u32 behind = low32(bits & lost);
    sure[l] = ordinary & (behind - (middle - close) >= 2 * close);
  }
  powers.sure = mask_of(sure);
  return powers;
}

void power_of_two(Wave& wave, const Instruction& in) {
  Lanes<f32> room;
  const f32* from = source<f32>(wave, in, 1, 0, room);
  Powers powers;
  powers.sure = 0;
  if ((wave.mode & mode_round) == 0) powers = powers_of_two(from);
  for (u64 left = ~powers.sure; left; left &= left - 1) {
    const unsigned l = static_cast<unsigned>(std::countr_zero(left));
    powers.value[l] = flushed(std::exp2(from[l]));
  }
  put(wave, in, 0, powers.value);
}

void add_transcendental(Table& t) {
  // Within one unit in the last place on the hardware; here correctly rounded, but without denormals as
  // there.
  vector(t, "v_rcp_f32", [](f32 a) { return flushed(1 / flushed(a)); });
  vector(t, "v_rcp_iflag_f32", [](f32 a) { return flushed(1 / flushed(a)); });
  vector(t, "v_rsq_f32", [](f32 a) { return 1 / std::sqrt(flushed(a)); });
  vector(t, "v_sqrt_f32", [](f32 a) { return std::sqrt(a); });
  for (const char* name : {"v_exp_f32", "v_exp_legacy_f32"})
    t.add(name, Entry{.execute = power_of_two, .clamps = true});
  vector(t, "v_log_f32", [](f32 a) { return std::log2(flushed(a)); });
  vector(t, "v_log_legacy_f32", [](f32 a) { return std::log2(flushed(a)); });
  // In turns, not in radians.
  vector(t, "v_sin_f32", [](f32 a) { return static_cast<f32>(sine_of_turns(a)); });
  vector(t, "v_cos_f32", [](f32 a) { return static_cast<f32>(cosine_of_turns(a)); });
}

void add_rounding(Table& t) {
  vector(t, "v_fract_f32", [](f32 a) { return fraction(a, 0x1.fffffep-1f); });
  vector(t, "v_trunc_f32", [](f32 a) { return std::trunc(a); });
  vector(t, "v_ceil_f32", [](f32 a) { return std::ceil(a); });
  vector(t, "v_floor_f32", [](f32 a) { return std::floor(a); });
  vector(t, "v_rndne_f32", [](f32 a) { return round_even(a); });
  vector(t, "v_frexp_mant_f32", [](f32 a) { return mantissa_of(a); });
  vector(t, "v_frexp_exp_i32_f32", [](f32 a) { return exponent_of(a); });
  vector(t, "v_ldexp_f32", [](f32 a, i32 b) { return times_power(a, b); });
}

// The faces of a cube map, as the largest of three coordinates chooses them.
struct Cube {
  f32 s, t, major, face;
};
Cube cube(f32 x, f32 y, f32 z) {
  if (std::fabs(z) >= std::fabs(x) && std::fabs(z) >= std::fabs(y)) {
    return {z < 0 ? -x : x, -y, 2 * z, z < 0 ? 5.0f : 4.0f};
  }
  if (std::fabs(y) >= std::fabs(x)) return {x, y < 0 ? -z : z, 2 * y, y < 0 ? 3.0f : 2.0f};
  return {x < 0 ? z : -z, -y, 2 * x, x < 0 ? 1.0f : 0.0f};
}

}  // namespace

void add_vector_float(Table& t) {
  vector(t, "v_add_f32", [](f32 a, f32 b) { return a + b; });
  vector(t, "v_sub_f32", [](f32 a, f32 b) { return a - b; });
  vector(t, "v_subrev_f32", [](f32 a, f32 b) { return b - a; });
  vector(t, "v_mul_f32", [](f32 a, f32 b) { return a * b; });
  // Zero times anything is zero.
  vector(t, "v_mul_legacy_f32", [](f32 a, f32 b) { return a == 0 || b == 0 ? 0.0f : a * b; });
  vector(t, "v_min_f32", [](f32 a, f32 b) { return min_of(a, b); });
  vector(t, "v_max_f32", [](f32 a, f32 b) { return max_of(a, b); });
  vector(t, "v_min3_f32", [](f32 a, f32 b, f32 c) { return min_of(min_of(a, b), c); });
  vector(t, "v_max3_f32", [](f32 a, f32 b, f32 c) { return max_of(max_of(a, b), c); });
  vector(t, "v_med3_f32", [](f32 a, f32 b, f32 c) { return middle_of(a, b, c); });

  // "mad" rounds the product, "fma" does not.
  vector(t, "v_fma_f32", [](f32 a, f32 b, f32 c) { return std::fma(a, b, c); });
  vector(t, "v_mad_f32", [](f32 a, f32 b, f32 c) { return a * b + c; });
  vector(t, "v_mad_legacy_f32", [](f32 a, f32 b, f32 c) { return (a == 0 || b == 0 ? 0.0f : a * b) + c; });
  vector(t, "v_fmaak_f32", [](f32 a, f32 b, f32 k) { return std::fma(a, b, k); });
  vector(t, "v_fmamk_f32", [](f32 a, f32 k, f32 b) { return std::fma(a, k, b); });
  vector(t, "v_madak_f32", [](f32 a, f32 b, f32 k) { return a * b + k; });
  vector(t, "v_madmk_f32", [](f32 a, f32 k, f32 b) { return a * k + b; });
  accumulate(t, "v_fmac_f32", [](f32 a, f32 b, f32 c) { return std::fma(a, b, c); });
  accumulate(t, "v_mac_f32", [](f32 a, f32 b, f32 c) { return a * b + c; });

  vector(t, "v_cubeid_f32", [](f32 x, f32 y, f32 z) { return cube(x, y, z).face; });
  vector(t, "v_cubesc_f32", [](f32 x, f32 y, f32 z) { return cube(x, y, z).s; });
  vector(t, "v_cubetc_f32", [](f32 x, f32 y, f32 z) { return cube(x, y, z).t; });
  vector(t, "v_cubema_f32", [](f32 x, f32 y, f32 z) { return cube(x, y, z).major; });
  add_transcendental(t);
  add_rounding(t);
}

}  // namespace amd_gpu
