// Conversions between number formats, but for the 8-bit floats (float8.cpp).
// Source: AMD Instinct MI300 ISA, "VOP1 Instructions", "VOP3A & VOP3B Instructions".
#include <algorithm>

#include "real.h"

namespace amd_gpu {
namespace {

// Towards zero, whatever MODE says; too large becomes the largest number, as rounding towards zero has it.
u16 half_towards_zero(f32 value) {
  u16 bits = float_to_half(value);
  const f32 back = half_to_float(bits);
  if (value == value && !std::isinf(value) && std::fabs(back) > std::fabs(value)) bits--;
  return bits;
}

// [-1, 1] or [0, 1] to the whole range of 16 bits.
i16 signed_norm(f32 value) {
  return static_cast<i16>(value != value ? 0.0f : std::nearbyint(std::clamp(value, -1.0f, 1.0f) * 32767));
}
u16 unsigned_norm(f32 value) {
  return static_cast<u16>(value != value ? 0.0f : std::nearbyint(std::clamp(value, 0.0f, 1.0f) * 65535));
}

// In whole rows where nothing but a register's half is read.
void float_to_half_rows(Wave& wave, const Instruction& in) {
  Lanes<f32> room;
  Lanes<u32> words;
  floats_to_halves(source<f32>(wave, in, 1, 0, room), words.lane);
  if (in.plain && !in.op_sel) return merge(wave.vector[in.operand(0).index], words.lane, wave.exec());
  Lanes<f16> results;
  for (unsigned l = 0; l < lanes; l++) results[l] = as<f16>(static_cast<u16>(words[l]));
  put(wave, in, 0, results);
}
void half_to_float_rows(Wave& wave, const Instruction& in) {
  Lanes<f32> results;
  const Operand& from = in.operand(1);
  if (in.plain && from.is_vector() && !from.negate && !from.absolute) {
    halves_to_floats(wave.vector[from.index], in.op_sel & 1 ? 16 : 0, results.lane);
  } else {
    Lanes<f16> room;
    const f16* halves = source<f16>(wave, in, 1, 0, room);
    for (unsigned l = 0; l < lanes; l++) results[l] = static_cast<f32>(halves[l]);
  }
  put(wave, in, 0, results);
}

void add_integers(Table& t) {
  vector(t, "v_cvt_f32_i32", [](i32 a) { return static_cast<f32>(a); });
  vector(t, "v_cvt_f32_u32", [](u32 a) { return static_cast<f32>(a); });
  vector(t, "v_cvt_f64_i32", [](i32 a) { return static_cast<f64>(a); });
  vector(t, "v_cvt_f64_u32", [](u32 a) { return static_cast<f64>(a); });
  vector(t, "v_cvt_f16_i16", [](i16 a) { return static_cast<f16>(static_cast<f32>(a)); });
  vector(t, "v_cvt_f16_u16", [](u16 a) { return static_cast<f16>(static_cast<f32>(a)); });
  vector(t, "v_cvt_i32_f32", [](f32 a) { return to_integer<i32>(a); });
  vector(t, "v_cvt_u32_f32", [](f32 a) { return to_integer<u32>(a); });
  vector(t, "v_cvt_i32_f64", [](f64 a) { return to_integer<i32>(a); });
  vector(t, "v_cvt_u32_f64", [](f64 a) { return to_integer<u32>(a); });
  vector(t, "v_cvt_i16_f16", [](f16 a) { return to_integer<i16>(a); });
  vector(t, "v_cvt_u16_f16", [](f16 a) { return to_integer<u16>(a); });
  vector(t, "v_cvt_rpi_i32_f32", [](f32 a) { return to_integer<i32>(std::floor(f64{a} + 0.5)); });
  vector(t, "v_cvt_flr_i32_f32", [](f32 a) { return to_integer<i32>(std::floor(a)); });
  vector(t, "v_cvt_f32_ubyte0", [](u32 a) { return static_cast<f32>(a & 0xff); });
  vector(t, "v_cvt_f32_ubyte1", [](u32 a) { return static_cast<f32>(a >> 8 & 0xff); });
  vector(t, "v_cvt_f32_ubyte2", [](u32 a) { return static_cast<f32>(a >> 16 & 0xff); });
  vector(t, "v_cvt_f32_ubyte3", [](u32 a) { return static_cast<f32>(a >> 24); });
  // Four signed bits in sixteenths.
  vector(t, "v_cvt_off_f32_i4", [](u32 a) { return static_cast<f32>(static_cast<i32>(a << 28) >> 28) / 16; });
}

void add_packs(Table& t) {
  vector(t, "v_cvt_pkrtz_f16_f32",
         [](f32 a, f32 b) { return pack(half_towards_zero(a), half_towards_zero(b)); });
  vector(t, "v_cvt_pknorm_i16_f32", [](f32 a, f32 b) {
    return pack(static_cast<u16>(signed_norm(a)), static_cast<u16>(signed_norm(b)));
  });
  vector(t, "v_cvt_pknorm_u16_f32", [](f32 a, f32 b) { return pack(unsigned_norm(a), unsigned_norm(b)); });
  vector(t, "v_cvt_pknorm_i16_f16", [](f16 a, f16 b) {
    return pack(static_cast<u16>(signed_norm(static_cast<f32>(a))),
                static_cast<u16>(signed_norm(static_cast<f32>(b))));
  });
  vector(t, "v_cvt_pknorm_u16_f16", [](f16 a, f16 b) {
    return pack(unsigned_norm(static_cast<f32>(a)), unsigned_norm(static_cast<f32>(b)));
  });
  vector(t, "v_cvt_norm_i16_f16", [](f16 a) { return signed_norm(static_cast<f32>(a)); });
  vector(t, "v_cvt_norm_u16_f16", [](f16 a) { return unsigned_norm(static_cast<f32>(a)); });
  vector(t, "v_cvt_pk_i16_i32", [](i32 a, i32 b) {
    return pack(static_cast<u16>(saturated<i16>(a)), static_cast<u16>(saturated<i16>(b)));
  });
  vector(t, "v_cvt_pk_u16_u32", [](u32 a, u32 b) {
    return pack(static_cast<u16>(min_of(a, 0xffffu)), static_cast<u16>(min_of(b, 0xffffu)));
  });
  vector(t, "v_cvt_pk_u8_f32", [](f32 a, u32 where, u32 old) {
    const u32 shift = 8 * (where & 3), value = to_integer<u8>(a);
    return (old & ~(0xffu << shift)) | value << shift;
  });
  vector(t, "v_sat_pk_u8_i16", [](u32 a) {
    const u32 low = saturated<u8>(i32{static_cast<i16>(a)}),
              high = saturated<u8>(i32{static_cast<i16>(a >> 16)});
    return low | high << 8;
  });
}

}  // namespace

void add_convert(Table& t) {
  vector(t, "v_cvt_f64_f32", [](f32 a) { return static_cast<f64>(a); });
  vector(t, "v_cvt_f32_f64", [](f64 a) { return static_cast<f32>(a); });
  t.add("v_cvt_f16_f32", Entry{.execute = float_to_half_rows, .clamps = true});
  t.add("v_cvt_f32_f16", Entry{.execute = half_to_float_rows, .clamps = true});
  add_integers(t);
  add_packs(t);
}

}  // namespace amd_gpu
