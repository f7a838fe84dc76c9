// The 8-bit floats: conversions of one value, of pairs, and with stochastic rounding. With a scale:
// scaled.cpp. Source: AMD Instinct MI300 ISA, V_CVT_F32_FP8, V_CVT_PK_F32_FP8, V_CVT_PK_FP8_F32,
// V_CVT_SR_FP8_F32.
#include "lanes.h"
#include "mode.h"
#include "small_float.h"

namespace amd_gpu {
namespace {

template <class Format>
void to_float(Wave& wave, const Instruction& in) {
  Lanes<u32> room;
  Lanes<f32> results;
  const u32* from = source<u32>(wave, in, 1, 0, room);
  // Another byte than the lowest is SDWA's to select.
  for (unsigned l = 0; l < lanes; l++) results[l] = Format::decode(static_cast<u8>(from[l]));
  put(wave, in, 0, results);
}

// Two floats from the lower half, or that which SDWA selects.
template <class Format>
void to_floats(Wave& wave, const Instruction& in) {
  Lanes<u32> room;
  const u32* from = source<u32>(wave, in, 1, 0, room);
  Lanes<u64> results;
  for (unsigned l = 0; l < lanes; l++) {
    results[l] = join(as<u32>(Format::decode(static_cast<u8>(from[l]))),
                      as<u32>(Format::decode(static_cast<u8>(from[l] >> 8))));
  }
  put(wave, in, 0, results);
}

// Two floats into half of the destination; the other half stays. op_sel's bit behind the sources says which.
template <class Format>
void from_floats(Wave& wave, const Instruction& in) {
  Lanes<f32> room_a, room_b;
  const f32* a = source<f32>(wave, in, 1, 0, room_a);
  const f32* b = source<f32>(wave, in, 2, 1, room_b);
  const unsigned shift = in.op_sel & 4 ? 16 : 0;
  const u32* old = wave.vector[in.operand(0).index];
  const bool saturate = (wave.mode & mode_overflow) != 0;
  Lanes<u32> results;
  for (unsigned l = 0; l < lanes; l++) {
    const u32 pair = Format::encode(a[l], saturate) | Format::encode(b[l], saturate) << 8;
    results[l] = (old[l] & ~(0xffffu << shift)) | pair << shift;
  }
  put(wave, in, 0, results);
}

// One float into one byte of the destination, rounded with the random bits of the second source.
template <class Format>
void from_float_randomly(Wave& wave, const Instruction& in) {
  Lanes<f32> room_a;
  Lanes<u32> room_b, results;
  const f32* a = source<f32>(wave, in, 1, 0, room_a);
  const u32* random = source<u32>(wave, in, 2, 1, room_b);
  const unsigned shift = 8 * (in.op_sel >> 2 & 3);
  const u32* old = wave.vector[in.operand(0).index];
  const bool saturate = (wave.mode & mode_overflow) != 0;
  for (unsigned l = 0; l < lanes; l++) {
    const u32 byte = Format::encode(a[l], saturate, &random[l]);
    results[l] = (old[l] & ~(0xffu << shift)) | byte << shift;
  }
  put(wave, in, 0, results);
}

template <class F8, class B8>
void add(Table& t) {
  t.add("v_cvt_f32_fp8", Entry{.execute = to_float<F8>, .clamps = true});
  t.add("v_cvt_f32_bf8", Entry{.execute = to_float<B8>, .clamps = true});
  t.add("v_cvt_pk_f32_fp8", to_floats<F8>);
  t.add("v_cvt_pk_f32_bf8", to_floats<B8>);
  t.add("v_cvt_pk_fp8_f32", from_floats<F8>);
  t.add("v_cvt_pk_bf8_f32", from_floats<B8>);
  t.add("v_cvt_sr_fp8_f32", from_float_randomly<F8>);
  t.add("v_cvt_sr_bf8_f32", from_float_randomly<B8>);
}

}  // namespace

void add_float8(Table& t, Target target) {
  target == Target::gfx950 ? add<Fp8, Bf8>(t) : add<Fp8Fnuz, Bf8Fnuz>(t);
}

}  // namespace amd_gpu
