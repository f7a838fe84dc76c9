// 16-bit arithmetic: f16, i16, u16. The halves of a register that are read and written are lanes.h's
// business. Source: AMD Instinct MI300 ISA, "VOP1 Instructions", "VOP2 Instructions", "VOP3A & VOP3B
// Instructions".
#include "real.h"

namespace amd_gpu {
namespace {

// f16 through f32: the sum or product of two f16 rounds once more to the same as if it had rounded once.
f16 half(f32 value) {
  return static_cast<f16>(value);
}
f32 wide(f16 value) {
  return static_cast<f32>(value);
}

void add_real(Table& t) {
  vector(t, "v_add_f16", [](f16 a, f16 b) { return half(wide(a) + wide(b)); });
  vector(t, "v_sub_f16", [](f16 a, f16 b) { return half(wide(a) - wide(b)); });
  vector(t, "v_subrev_f16", [](f16 a, f16 b) { return half(wide(b) - wide(a)); });
  vector(t, "v_mul_f16", [](f16 a, f16 b) { return half(wide(a) * wide(b)); });
  vector(t, "v_min_f16", [](f16 a, f16 b) { return min_of(a, b); });
  vector(t, "v_max_f16", [](f16 a, f16 b) { return max_of(a, b); });
  vector(t, "v_min3_f16", [](f16 a, f16 b, f16 c) { return min_of(min_of(a, b), c); });
  vector(t, "v_max3_f16", [](f16 a, f16 b, f16 c) { return max_of(max_of(a, b), c); });
  vector(t, "v_med3_f16", [](f16 a, f16 b, f16 c) { return middle_of(a, b, c); });
  vector(t, "v_fma_f16", [](f16 a, f16 b, f16 c) { return fma_half(a, b, c); });
  vector(t, "v_mad_f16", [](f16 a, f16 b, f16 c) { return half(wide(half(wide(a) * wide(b))) + wide(c)); });
  vector(t, "v_madak_f16", [](f16 a, f16 b, f16 k) { return half(wide(half(wide(a) * wide(b))) + wide(k)); });
  vector(t, "v_madmk_f16", [](f16 a, f16 k, f16 b) { return half(wide(half(wide(a) * wide(k))) + wide(b)); });
  accumulate(t, "v_mac_f16",
             [](f16 a, f16 b, f16 c) { return half(wide(half(wide(a) * wide(b))) + wide(c)); });
  accumulate(t, "v_fmac_f16", [](f16 a, f16 b, f16 c) { return fma_half(a, b, c); });
  vector(t, "v_ldexp_f16", [](f16 a, i16 b) { return half(std::ldexp(wide(a), b)); });
  vector(t, "v_rcp_f16", [](f16 a) { return half(1 / wide(a)); });
  vector(t, "v_rsq_f16", [](f16 a) { return half(1 / std::sqrt(wide(a))); });
  vector(t, "v_sqrt_f16", [](f16 a) { return half(std::sqrt(wide(a))); });
  vector(t, "v_exp_f16", [](f16 a) { return half(std::exp2(wide(a))); });
  vector(t, "v_log_f16", [](f16 a) { return half(std::log2(wide(a))); });
  vector(t, "v_sin_f16", [](f16 a) { return half(static_cast<f32>(sine_of_turns(wide(a)))); });
  vector(t, "v_cos_f16", [](f16 a) { return half(static_cast<f32>(cosine_of_turns(wide(a)))); });
  vector(t, "v_fract_f16", [](f16 a) { return half(fraction(wide(a), 0x1.ffcp-1f)); });
  vector(t, "v_trunc_f16", [](f16 a) { return half(std::trunc(wide(a))); });
  vector(t, "v_ceil_f16", [](f16 a) { return half(std::ceil(wide(a))); });
  vector(t, "v_floor_f16", [](f16 a) { return half(std::floor(wide(a))); });
  vector(t, "v_rndne_f16", [](f16 a) { return half(round_even(wide(a))); });
  vector(t, "v_frexp_mant_f16", [](f16 a) { return half(mantissa_of(wide(a))); });
  vector(t, "v_frexp_exp_i16_f16", [](f16 a) { return static_cast<i16>(exponent_of(wide(a))); });
}

void add_integer(Table& t) {
  vector(
      t, "v_add_u16", [](u16 a, u16 b) { return static_cast<u16>(a + b); },
      [](u16 a, u16 b) { return saturated<u16>(a + b); });
  vector(
      t, "v_sub_u16", [](u16 a, u16 b) { return static_cast<u16>(a - b); },
      [](u16 a, u16 b) { return saturated<u16>(a - b); });
  vector(
      t, "v_subrev_u16", [](u16 a, u16 b) { return static_cast<u16>(b - a); },
      [](u16 a, u16 b) { return saturated<u16>(b - a); });
  vector_keeping_half(t, "v_add_i16", [](i16 a, i16 b) { return static_cast<i16>(a + b); });
  vector_keeping_half(t, "v_sub_i16", [](i16 a, i16 b) { return static_cast<i16>(a - b); });
  vector(t, "v_mul_lo_u16", [](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); });
  vector(t, "v_mad_u16", [](u16 a, u16 b, u16 c) { return static_cast<u16>(u32{a} * b + c); });
  vector(t, "v_mad_i16", [](i16 a, i16 b, i16 c) { return static_cast<i16>(a * b + c); });
  vector(t, "v_min_u16", [](u16 a, u16 b) { return min_of(a, b); });
  vector(t, "v_max_u16", [](u16 a, u16 b) { return max_of(a, b); });
  vector(t, "v_min_i16", [](i16 a, i16 b) { return min_of(a, b); });
  vector(t, "v_max_i16", [](i16 a, i16 b) { return max_of(a, b); });
  vector(t, "v_min3_u16", [](u16 a, u16 b, u16 c) { return min_of(min_of(a, b), c); });
  vector(t, "v_max3_u16", [](u16 a, u16 b, u16 c) { return max_of(max_of(a, b), c); });
  vector(t, "v_med3_u16", [](u16 a, u16 b, u16 c) { return middle_of(a, b, c); });
  vector(t, "v_min3_i16", [](i16 a, i16 b, i16 c) { return min_of(min_of(a, b), c); });
  vector(t, "v_max3_i16", [](i16 a, i16 b, i16 c) { return max_of(max_of(a, b), c); });
  vector(t, "v_med3_i16", [](i16 a, i16 b, i16 c) { return middle_of(a, b, c); });
  // "rev": the shift count comes first.
  vector(t, "v_lshlrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); });
  vector(t, "v_lshrrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); });
  vector(t, "v_ashrrev_i16", [](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); });
  // 16-bit factors, 32-bit sums.
  vector(t, "v_mad_u32_u16", [](u16 a, u16 b, u32 c) { return u32{a} * b + c; });
  vector(t, "v_mad_i32_i16", [](i16 a, i16 b, u32 c) { return static_cast<u32>(a * b) + c; });
}

// The forms from before gfx9, which clear the upper half.
void add_legacy(Table& t) {
  vector_clearing_half(t, "v_fma_legacy_f16", [](f16 a, f16 b, f16 c) { return fma_half(a, b, c); });
  vector_clearing_half(t, "v_mad_legacy_f16",
                       [](f16 a, f16 b, f16 c) { return half(wide(half(wide(a) * wide(b))) + wide(c)); });
  vector_clearing_half(t, "v_mad_legacy_u16",
                       [](u16 a, u16 b, u16 c) { return static_cast<u16>(u32{a} * b + c); });
  vector_clearing_half(t, "v_mad_legacy_i16",
                       [](i16 a, i16 b, i16 c) { return static_cast<i16>(a * b + c); });
}

}  // namespace

void add_vector_half(Table& table) {
  add_real(table);
  add_integer(table);
  add_legacy(table);
}

}  // namespace amd_gpu
