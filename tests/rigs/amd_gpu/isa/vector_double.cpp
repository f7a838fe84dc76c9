// f64 arithmetic.
// Source: AMD Instinct MI300 ISA, "VOP1 Instructions", "VOP3A & VOP3B Instructions".
#include "real.h"

namespace amd_gpu {
namespace {

// 1201 bits of 2/pi, for the reduction of large arguments of sin and cos (v_trig_preop_f64): 53 of them from
// bit 53 * segment on, more for large arguments.
constexpr u64 two_over_pi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                               0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                               0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                               0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                               0x3d0739f78a5292ea, 0x6bfb5fb1f8d5d085, 0x6033046fc7b6babf, 0};

u64 bits_of_two_over_pi(unsigned first, unsigned count) {
  u64 value = 0;
  for (unsigned k = first; k < first + count; k++) {
    const u64 bit = k / 64 < std::size(two_over_pi) ? two_over_pi[k / 64] >> (63 - k % 64) & 1 : 0;
    value = value << 1 | bit;
  }
  return value;
}

// Source: AMD Instinct MI300 ISA, V_TRIG_PREOP_F64.
f64 trig_preop(f64 value, u32 segment) {
  const int exponent = static_cast<int>(as<u64>(value) >> 52 & 0x7ff);
  unsigned shift = 53 * (segment & 31);
  if (exponent > 1077) shift += static_cast<unsigned>(exponent - 1077);
  const f64 digits = static_cast<f64>(bits_of_two_over_pi(shift, 53));
  const int scale = -53 - static_cast<int>(shift) + (exponent >= 1968 ? 128 : 0);
  return std::ldexp(digits, scale);
}

}  // namespace

void add_vector_double(Table& t) {
  vector(t, "v_add_f64", [](f64 a, f64 b) { return a + b; });
  vector(t, "v_mul_f64", [](f64 a, f64 b) { return a * b; });
  vector(t, "v_min_f64", [](f64 a, f64 b) { return min_of(a, b); });
  vector(t, "v_max_f64", [](f64 a, f64 b) { return max_of(a, b); });
  vector(t, "v_fma_f64", [](f64 a, f64 b, f64 c) { return std::fma(a, b, c); });
  accumulate(t, "v_fmac_f64", [](f64 a, f64 b, f64 c) { return std::fma(a, b, c); });
  vector(t, "v_ldexp_f64", [](f64 a, i32 b) { return std::ldexp(a, b); });
  vector(t, "v_rcp_f64", [](f64 a) { return 1 / a; });
  vector(t, "v_rsq_f64", [](f64 a) { return 1 / std::sqrt(a); });
  vector(t, "v_sqrt_f64", [](f64 a) { return std::sqrt(a); });
  vector(t, "v_fract_f64", [](f64 a) { return fraction(a, 0x1.fffffffffffffp-1); });
  vector(t, "v_trunc_f64", [](f64 a) { return std::trunc(a); });
  vector(t, "v_ceil_f64", [](f64 a) { return std::ceil(a); });
  vector(t, "v_floor_f64", [](f64 a) { return std::floor(a); });
  vector(t, "v_rndne_f64", [](f64 a) { return round_even(a); });
  vector(t, "v_frexp_mant_f64", [](f64 a) { return mantissa_of(a); });
  vector(t, "v_frexp_exp_i32_f64", [](f64 a) { return exponent_of(a); });
  vector(t, "v_trig_preop_f64", [](f64 a, u32 segment) { return trig_preop(a, segment); });
}

}  // namespace amd_gpu
