// Dot products of the parts of two registers, added to a third.
// Source: AMD Instinct MI300 ISA, V_DOT2_F32_F16, V_DOT2_I32_I16, V_DOT4_I32_I8, V_DOT8_I32_I4 and the like.
#include "lanes.h"

namespace amd_gpu {
namespace {

// Part k of `bits` bits, extended.
template <bool is_signed, unsigned bits>
i64 part(u32 word, unsigned k) {
  const u32 top = word << (32 - bits * (k + 1));
  return is_signed ? i64{static_cast<i32>(top) >> (32 - bits)} : i64{top >> (32 - bits)};
}

template <bool is_signed, unsigned bits>
i64 exact(u32 a, u32 b, u32 c) {
  i64 sum = is_signed ? i64{static_cast<i32>(c)} : i64{c};
  for (unsigned k = 0; k < 32 / bits; k++) sum += part<is_signed, bits>(a, k) * part<is_signed, bits>(b, k);
  return sum;
}

template <bool is_signed, unsigned bits>
void add(Table& table, std::string_view mnemonic) {
  using Result = std::conditional_t<is_signed, i32, u32>;
  vector(
      table, mnemonic, [](u32 a, u32 b, u32 c) { return static_cast<u32>(exact<is_signed, bits>(a, b, c)); },
      [](u32 a, u32 b, u32 c) {
        return static_cast<u32>(saturated<Result>(exact<is_signed, bits>(a, b, c)));
      });
}

f32 dot_half(u32 a, u32 b, f32 c) {
  const f32 low = half_to_float(half_of(a, false)) * half_to_float(half_of(b, false));
  return std::fma(half_to_float(half_of(a, true)), half_to_float(half_of(b, true)), low + c);
}

f32 dot_bf16(u32 a, u32 b, f32 c) {
  const f32 low = bf16_to_float(half_of(a, false)) * bf16_to_float(half_of(b, false));
  return std::fma(bf16_to_float(half_of(a, true)), bf16_to_float(half_of(b, true)), low + c);
}

}  // namespace

void add_dot(Table& t) {
  add<true, 16>(t, "v_dot2_i32_i16");
  add<false, 16>(t, "v_dot2_u32_u16");
  add<true, 8>(t, "v_dot4_i32_i8");
  add<false, 8>(t, "v_dot4_u32_u8");
  add<true, 4>(t, "v_dot8_i32_i4");
  add<false, 4>(t, "v_dot8_u32_u4");
  accumulate(t, "v_dot2c_i32_i16",
             [](u32 a, u32 b, u32 c) { return static_cast<u32>(exact<true, 16>(a, b, c)); });
  accumulate(t, "v_dot4c_i32_i8",
             [](u32 a, u32 b, u32 c) { return static_cast<u32>(exact<true, 8>(a, b, c)); });
  accumulate(t, "v_dot8c_i32_i4",
             [](u32 a, u32 b, u32 c) { return static_cast<u32>(exact<true, 4>(a, b, c)); });
  vector(t, "v_dot2_f32_f16", [](u32 a, u32 b, f32 c) { return dot_half(a, b, c); });
  vector(t, "v_dot2_f32_bf16", [](u32 a, u32 b, f32 c) { return dot_bf16(a, b, c); });
  accumulate(t, "v_dot2c_f32_bf16", [](u32 a, u32 b, f32 c) { return dot_bf16(a, b, c); });
  accumulate(t, "v_dot2c_f32_f16", [](u32 a, u32 b, f32 c) { return dot_half(a, b, c); });
}

}  // namespace amd_gpu
