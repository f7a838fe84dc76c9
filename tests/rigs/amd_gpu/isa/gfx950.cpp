// What came with gfx950 and belongs to no other file: bits, 16-bit floats, lanes that are swapped.
// Source: AMD Instinct CDNA4 ISA, V_BITOP3_B32, V_ASHR_PK_I8_I32, V_MINIMUM3_F32, V_CVT_SR_BF16_F32,
// V_PERMLANE16_SWAP_B32.
#include "lanes.h"
#include "random.h"

namespace amd_gpu {
namespace {

// Bit 4a + 2b + c of the table is the result for bits a, b and c of the sources.
template <class T>
void bit_operation(Wave& wave, const Instruction& in) {
  Lanes<T> rooms[3], results;
  const T* a = source<T>(wave, in, 1, 0, rooms[0]);
  const T* b = source<T>(wave, in, 2, 1, rooms[1]);
  const T* c = source<T>(wave, in, 3, 2, rooms[2]);
  for (unsigned l = 0; l < lanes; l++) {
    u32 result = 0;
    for (unsigned k = 0; k < 8; k++) {
      if (!(in.truth_table >> k & 1)) continue;
      result |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
    }
    results[l] = static_cast<T>(result);
  }
  put(wave, in, 0, results, OtherHalf::kept);
}

// Two sums shifted and saturated to bytes, into one half of the destination.
template <class Byte>
void shift_and_pack(Wave& wave, const Instruction& in) {
  Lanes<i32> room_a, room_b;
  Lanes<u32> room_c;
  Lanes<u16> results;
  const i32* a = source<i32>(wave, in, 1, 0, room_a);
  const i32* b = source<i32>(wave, in, 2, 1, room_b);
  const u32* by = source<u32>(wave, in, 3, 2, room_c);
  for (unsigned l = 0; l < lanes; l++) {
    const auto low = static_cast<u8>(saturated<Byte>(a[l] >> (by[l] & 31)));
    const auto high = static_cast<u8>(saturated<Byte>(b[l] >> (by[l] & 31)));
    results[l] = static_cast<u16>(low | high << 8);
  }
  put(wave, in, 0, results, OtherHalf::kept);
}

// NaN if either is NaN; -0 is less than +0.
f32 minimum_of(f32 a, f32 b) {
  return a != a || b != b ? std::numeric_limits<f32>::quiet_NaN() : min_of(a, b);
}
f32 maximum_of(f32 a, f32 b) {
  return a != a || b != b ? std::numeric_limits<f32>::quiet_NaN() : max_of(a, b);
}

// What is cut off of the mantissa carries with the upper bits of the seed.
u16 bf16_randomly(f32 value, u32 seed) {
  const u32 bits = as<u32>(value);
  if (value != value) return static_cast<u16>(bits >> 16 | 0x40);
  return static_cast<u16>(std::isinf(value) ? bits >> 16 : (bits + (seed >> 16)) >> 16);
}
u16 half_randomly(f32 value, u32 seed) {
  if (!std::isfinite(value)) return float_to_half(value);
  const f64 magnitude = std::fabs(static_cast<f64>(value));
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), -14) : -14;
  const f64 cut = std::floor(std::ldexp(magnitude, 23 - exponent)) + (seed >> 19);
  const f64 kept = std::ldexp(std::floor(std::ldexp(cut, -13)), exponent - 10);
  return float_to_half(static_cast<f32>(std::copysign(kept, static_cast<f64>(value))));
}

template <u16 (*rounded)(f32, u32)>
void round_randomly(Wave& wave, const Instruction& in) {
  Lanes<f32> room_a;
  Lanes<u32> room_b;
  Lanes<u16> results;
  const f32* value = source<f32>(wave, in, 1, 0, room_a);
  const u32* seed = source<u32>(wave, in, 2, 1, room_b);
  for (unsigned l = 0; l < lanes; l++) results[l] = rounded(value[l], seed[l]);
  put(wave, in, 0, results, OtherHalf::kept);
}

// Odd rows of the first register against even rows of the second; a row has 16 lanes, or 32.
template <unsigned row>
void swap_rows(Wave& wave, const Instruction& in) {
  u32 *first = wave.vector[in.operand(0).index], *second = wave.vector[in.operand(1).index];
  const u64 exec = wave.exec();
  const auto given = [&](const u32* from, unsigned l) {
    return exec >> l & 1 || in.fetch_inactive ? from[l] : 0;
  };
  const auto takes = [&](unsigned l, unsigned other) {
    return (exec >> l & 1) && (in.bound_ctrl || in.fetch_inactive || (exec >> other & 1));
  };
  for (unsigned start = 0; start < lanes; start += 2 * row) {
    for (unsigned k = 0; k < row; k++) {
      const unsigned odd = start + row + k, even = start + k;
      const u32 up = given(second, even), down = given(first, odd);
      if (takes(odd, even)) first[odd] = up;
      if (takes(even, odd)) second[even] = down;
    }
  }
}

}  // namespace

void add_gfx950(Table& t) {
  t.add("v_bitop3_b32", bit_operation<u32>);
  t.add("v_bitop3_b16", bit_operation<u16>);
  t.add("v_ashr_pk_i8_i32", shift_and_pack<i8>);
  t.add("v_ashr_pk_u8_i32", shift_and_pack<u8>);
  t.add("v_cvt_sr_bf16_f32", round_randomly<bf16_randomly>);
  t.add("v_cvt_sr_f16_f32", round_randomly<half_randomly>);
  t.add("v_permlane16_swap_b32", swap_rows<16>);
  t.add("v_permlane32_swap_b32", swap_rows<32>);
  vector(t, "v_prng_b32", [](u32 a) { return next_random(a); });
  vector(t, "v_minimum3_f32", [](f32 a, f32 b, f32 c) { return minimum_of(minimum_of(a, b), c); });
  vector(t, "v_maximum3_f32", [](f32 a, f32 b, f32 c) { return maximum_of(maximum_of(a, b), c); });
  vector(t, "v_cvt_f32_bf16", [](u16 a) { return bf16_to_float(a); });
  vector(t, "v_cvt_pk_bf16_f32", [](f32 a, f32 b) { return pack(float_to_bf16(a), float_to_bf16(b)); });
  vector(t, "v_cvt_pk_f16_f32", [](f32 a, f32 b) { return pack(float_to_half(a), float_to_half(b)); });
}

}  // namespace amd_gpu
