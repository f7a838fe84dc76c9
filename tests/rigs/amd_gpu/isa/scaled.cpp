// Conversions with a scale, v_cvt_scalef32_*: the scale is the exponent of an f32 and counts as a power of
// two, by which wide numbers are divided and small ones multiplied. What is too large for 4 or 6 bits becomes
// the largest. Source: AMD Instinct CDNA4 ISA, "Converts with Scale"; LLVM's comments on op_sel.
#include "lanes.h"
#include "mode.h"
#include "random.h"
#include "small_float.h"

namespace amd_gpu {
namespace {

struct Bf16 {
  u16 bits;
};

f64 wide(f32 value) {
  return value;
}
f64 wide(f16 value) {
  return static_cast<f64>(value);
}
f64 wide(Bf16 value) {
  return bf16_to_float(value.bits);
}
template <class T>
constexpr int mantissa_of = std::is_same_v<T, f32>   ? 23
                            : std::is_same_v<T, f16> ? 10
                                                     : 7;

template <class T>
T narrow(f64 value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return {float_to_bf16(static_cast<f32>(value))};
  else
    return static_cast<T>(value);
}

// The largest exponent is the scale that is not a number.
f64 power_of(u32 scale) {
  const int exponent = static_cast<int>(scale >> 23 & 0xff);
  return exponent == 255 ? std::numeric_limits<f64>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
}

// Number `k` of a lane's registers from `first` on, each `bits` wide.
u32 packed_at(const Wave& wave, u16 first, unsigned lane, unsigned k, unsigned bits) {
  const unsigned at = k * bits, word = at / 32;
  const u32 low = wave.vector[first + word][lane];
  const u32 high = at % 32 + bits > 32 ? wave.vector[first + word + 1][lane] : 0;
  return low32(join(low, high) >> at % 32) & ((1u << (bits - 1) << 1) - 1);
}
template <class T>
T number_at(const Wave& wave, u16 first, unsigned lane, unsigned k) {
  return std::bit_cast<T>(static_cast<std::conditional_t<sizeof(T) == 4, u32, u16>>(
      packed_at(wave, first, lane, k, 8 * sizeof(T))));
}

u32 with_part(u32 old, u32 value, unsigned shift, unsigned bits) {
  const u32 mask = ((1u << (bits - 1) << 1) - 1) << shift;
  return (old & ~mask) | (value << shift & mask);
}

// Scales and seeds may be constants or scalars.
const u32* words(const Wave& wave, const Instruction& in, unsigned which, Lanes<u32>& room) {
  return source<u32>(wave, in, which, which - 1, room);
}

// --- from small numbers ------------------------------------------------------------------------------------

// One number of 8 bits: op_sel's first two bits say which byte, its third in which half an f16 goes.
template <class Format, class T>
void unpack_one(Wave& wave, const Instruction& in) {
  Lanes<u32> room_a, room_b, results;
  const u32 *from = words(wave, in, 1, room_a), *scale = words(wave, in, 2, room_b);
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned l = 0; l < lanes; l++) {
    const T value = narrow<T>(Format::decode(from[l] >> 8 * (in.op_sel & 3)) * power_of(scale[l]));
    if constexpr (sizeof(T) == 4)
      results[l] = as<u32>(value);
    else
      results[l] = with_part(to[l], std::bit_cast<u16>(value), in.op_sel & 4 ? 16 : 0, 16);
  }
  merge(to, results.lane, wave.exec());
}

// Two neighbours; op_sel says which half of the source, or which byte.
template <class Format, class T>
void unpack_pair(Wave& wave, const Instruction& in) {
  constexpr unsigned bits = Format::bits;
  const unsigned shift = bits == 8 ? 16 * (in.op_sel & 1) : 8 * (in.op_sel & 3);
  Lanes<u32> room_a, room_b, low, high;
  const u32 *from = words(wave, in, 1, room_a), *scale = words(wave, in, 2, room_b);
  for (unsigned l = 0; l < lanes; l++) {
    const f64 power = power_of(scale[l]);
    const T a = narrow<T>(Format::decode(from[l] >> shift) * power);
    const T b = narrow<T>(Format::decode(from[l] >> (shift + bits)) * power);
    if constexpr (sizeof(T) == 4)
      low[l] = as<u32>(a), high[l] = as<u32>(b);
    else
      low[l] = pack(std::bit_cast<u16>(a), std::bit_cast<u16>(b));
  }
  const u16 to = in.operand(0).index;
  merge(wave.vector[to], low.lane, wave.exec());
  if (sizeof(T) == 4) merge(wave.vector[to + 1], high.lane, wave.exec());
}

// 32 numbers of 6 bits.
template <class Format, class T>
void unpack_all(Wave& wave, const Instruction& in) {
  constexpr unsigned count = 32, each = 4 / sizeof(T);
  Lanes<u32> room;
  const u32* scale = words(wave, in, 2, room);
  const u16 to = in.operand(0).index, from = in.operand(1).index;
  for_active(wave, [&](unsigned l) {
    const f64 power = power_of(scale[l]);
    u32 made[count / each] = {};
    for (unsigned k = 0; k < count; k++) {
      const T value = narrow<T>(Format::decode(packed_at(wave, from, l, k, Format::bits)) * power);
      if constexpr (sizeof(T) == 4)
        made[k] = as<u32>(value);
      else
        made[k / 2] |= u32{std::bit_cast<u16>(value)} << 16 * (k % 2);
    }
    for (unsigned k = 0; k < count / each; k++) wave.vector[to + k][l] = made[k];
  });
}

// --- to small numbers --------------------------------------------------------------------------------------

template <class Format, class T>
u32 encoded(const Wave& wave, T value, u32 scale, const u32* seed) {
  // Too large a number is for MODE to decide where the format has something for it.
  return Format::encode(wide(value) / power_of(scale), wave.mode & mode_overflow, seed, mantissa_of<T>);
}

// One number with a seed: into the byte that the last two bits of op_sel say.
template <class Format, class T>
void pack_one(Wave& wave, const Instruction& in) {
  Lanes<u32> room_a, room_b, room_c, results;
  const u32 *from = words(wave, in, 1, room_a), *seed = words(wave, in, 2, room_b);
  const u32* scale = words(wave, in, 3, room_c);
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned l = 0; l < lanes; l++) {
    const T value = std::bit_cast<T>(static_cast<std::conditional_t<sizeof(T) == 4, u32, u16>>(from[l]));
    results[l] =
        with_part(to[l], encoded<Format>(wave, value, scale[l], &seed[l]), 8 * (in.op_sel >> 2 & 3), 8);
  }
  merge(to, results.lane, wave.exec());
}

// Two numbers, of one register (16 bits) or of two: into the half or the byte of the destination that op_sel
// says. With a seed they are in neighbouring registers, and the second has the random number that follows the
// seed.
template <class Format, class T, bool random>
void pack_pair(Wave& wave, const Instruction& in) {
  constexpr bool is_wide = sizeof(T) == 4;
  constexpr unsigned seed_at = 2, scale_at = random || is_wide ? 3 : 2, bits = 2 * Format::bits;
  const unsigned part = bits == 8 ? in.op_sel >> 2 & 3 : in.op_sel >> (is_wide ? 3 : 2) & 1;
  Lanes<u32> rooms[4], results;
  const u32* scale = words(wave, in, scale_at, rooms[0]);
  const u32* seed = words(wave, in, seed_at, rooms[1]);
  const u32* first = words(wave, in, 1, rooms[2]);
  const u32* second = first;
  if (is_wide) second = random ? wave.vector[in.operand(1).index + 1] : words(wave, in, 2, rooms[3]);
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned l = 0; l < lanes; l++) {
    T a, b;
    if constexpr (is_wide)
      a = as<T>(first[l]), b = as<T>(second[l]);
    else
      a = std::bit_cast<T>(half_of(first[l], false)), b = std::bit_cast<T>(half_of(first[l], true));
    const u32 next = next_random(seed[l]);
    const u32 low = encoded<Format>(wave, a, scale[l], random ? &seed[l] : nullptr);
    const u32 high = encoded<Format>(wave, b, scale[l], random ? &next : nullptr);
    results[l] = with_part(to[l], low | high << Format::bits, part * bits, bits);
  }
  merge(to, results.lane, wave.exec());
}

// 32 numbers to 6 bits each. Where they come from two operands, these take turns.
enum class From { one, one_and_seed, two };
template <class Format, class T, From form>
void pack_all(Wave& wave, const Instruction& in) {
  constexpr unsigned count = 32, words_made = count * Format::bits / 32;
  Lanes<u32> rooms[2];
  const u32* scale = words(wave, in, form == From::one ? 2 : 3, rooms[0]);
  const u32* seed = form == From::one_and_seed ? words(wave, in, 2, rooms[1]) : nullptr;
  const u16 to = in.operand(0).index, first = in.operand(1).index, second = in.operand(2).index;
  for_active(wave, [&](unsigned l) {
    u32 made[words_made + 1] = {}, random = seed ? seed[l] : 0;
    for (unsigned k = 0; k < count; k++) {
      const T value = form == From::two ? number_at<T>(wave, k % 2 ? second : first, l, k / 2)
                                        : number_at<T>(wave, first, l, k);
      const u64 code = encoded<Format>(wave, value, scale[l], seed ? &random : nullptr);
      const u64 placed = code << k * Format::bits % 32;
      made[k * Format::bits / 32] |= low32(placed);
      made[k * Format::bits / 32 + 1] |= high32(placed);
      random = next_random(random);
    }
    for (unsigned k = 0; k < words_made; k++) wave.vector[to + k][l] = made[k];
  });
}

template <class Format, class T>
void add_eight(Table& t, const std::string& small, const std::string& type) {
  const std::string name = "v_cvt_scalef32_";
  if (type != "bf16") t.add(name + type + "_" + small, unpack_one<Format, T>);
  t.add(name + "pk_" + type + "_" + small, unpack_pair<Format, T>);
  t.add(name + "pk_" + small + "_" + type, pack_pair<Format, T, false>);
  t.add(name + "sr_" + small + "_" + type, pack_one<Format, T>);
}

template <class Format, class T>
void add_six(Table& t, const std::string& small, const std::string& type) {
  const std::string name = "v_cvt_scalef32_";
  t.add(name + "pk32_" + type + "_" + small, unpack_all<Format, T>);
  t.add(name + "sr_pk32_" + small + "_" + type, pack_all<Format, T, From::one_and_seed>);
  if (sizeof(T) == 4)
    t.add(name + "2xpk16_" + small + "_" + type, pack_all<Format, T, From::two>);
  else
    t.add(name + "pk32_" + small + "_" + type, pack_all<Format, T, From::one>);
}

template <class T>
void add_type(Table& t, const std::string& type) {
  add_eight<Fp8, T>(t, "fp8", type);
  add_eight<Bf8, T>(t, "bf8", type);
  add_six<Fp6, T>(t, "fp6", type);
  add_six<Bf6, T>(t, "bf6", type);
  const std::string name = "v_cvt_scalef32_";
  t.add(name + "pk_" + type + "_fp4", unpack_pair<Fp4, T>);
  t.add(name + "pk_fp4_" + type, pack_pair<Fp4, T, false>);
  t.add(name + "sr_pk_fp4_" + type, pack_pair<Fp4, T, true>);
}

}  // namespace

void add_scaled(Table& t) {
  add_type<f32>(t, "f32");
  add_type<f16>(t, "f16");
  add_type<Bf16>(t, "bf16");
}

}  // namespace amd_gpu
