// Between lanes and scalars, and between lanes: v_readlane and the like, counts of lower lanes, ds_bpermute.
// (DPP is not here: it is a way for any instruction to read its first source, in lanes.cpp.)
// Source: AMD Instinct MI300 ISA, V_READLANE_B32, V_MBCNT_LO_U32_B32, DS_BPERMUTE_B32, DS_SWIZZLE_B32.
#include "lanes.h"

namespace amd_gpu {
namespace {

u32 lane_of(const Wave& wave, const Operand& operand, unsigned lane) {
  return operand.is_vector() ? wave.vector[operand.index][lane] : wave.get32(operand);
}

void read_first(Wave& wave, const Instruction& in) {
  const u64 exec = wave.exec();
  wave.put32(in.operand(0),
             lane_of(wave, in.operand(1), exec ? static_cast<unsigned>(std::countr_zero(exec)) : 0));
}

// Both ignore EXEC.
void read_lane(Wave& wave, const Instruction& in) {
  wave.put32(in.operand(0), lane_of(wave, in.operand(1), wave.get32(in.operand(2)) & 63));
}
void write_lane(Wave& wave, const Instruction& in) {
  wave.vector[in.operand(0).index][wave.get32(in.operand(2)) & 63] = wave.get32(in.operand(1));
}

// Bits of a mask that belong to lower lanes: of the wave's first 32 lanes, or of the others.
template <bool upper>
void count_lower(Wave& wave, const Instruction& in) {
  Lanes<u32> room_a, room_b, results;
  const u32* mask = source<u32>(wave, in, 1, 0, room_a);
  const u32* addend = source<u32>(wave, in, 2, 1, room_b);
  for (unsigned l = 0; l < lanes; l++) {
    const u64 lower = (u64{1} << l) - 1;
    results[l] =
        static_cast<u32>(std::popcount(mask[l] & (upper ? high32(lower) : low32(lower)))) + addend[l];
  }
  put(wave, in, 0, results);
}

// The data of the lane whose number times four is `from` and `offset`.
void pick_lanes(const u32* data, const u32* from, u32 offset, u32* results) {
#if defined(__AVX512F__)
  __m512i rows[4];
  for (unsigned r = 0; r < 4; r++) rows[r] = _mm512_loadu_si512(data + r * sixteen);
  for (unsigned l = 0; l < lanes; l += sixteen) {
    const Sixteen<u32> lane = (sixteen_at(from + l) + offset) >> 2;
    const auto which = reinterpret_cast<__m512i>(lane);
    const __m512i low = _mm512_permutex2var_epi32(rows[0], which, rows[1]),
                  high = _mm512_permutex2var_epi32(rows[2], which, rows[3]);
    const __mmask16 is_high = _mm512_test_epi32_mask(which, _mm512_set1_epi32(32));
    _mm512_storeu_si512(results + l, _mm512_mask_blend_epi32(is_high, low, high));
  }
#else
  for (unsigned l = 0; l < lanes; l++) results[l] = data[(from[l] + offset) / 4 & 63];
#endif
}

// "Backward": each lane says from which lane it reads. An inactive one gives 0.
void bpermute(Wave& wave, const Instruction& in) {
  const u32 *from = wave.vector[in.operand(1).index], *data = wave.vector[in.operand(2).index];
  const u64 exec = wave.exec();
  const u32 offset = static_cast<u32>(in.offset);
  Lanes<u32> results{}, room;
  // What an inactive lane would give is zero for all that read it.
  if (exec != ~u64{0}) {
    merge(results.lane, data, exec);
    room = results;
    data = room.lane;
  }
  pick_lanes(data, from, offset, results.lane);
  merge(wave.vector[in.operand(0).index], results.lane, exec);
}

// "Forward": each lane says to which lane it writes; the highest lane wins, and who gets nothing gets 0.
void permute(Wave& wave, const Instruction& in) {
  const u32 *to = wave.vector[in.operand(1).index], *data = wave.vector[in.operand(2).index];
  Lanes<u32> results{};
  for_active(wave, [&](unsigned l) { results[(to[l] + static_cast<u32>(in.offset)) / 4 & 63] = data[l]; });
  merge(wave.vector[in.operand(0).index], results.lane, wave.exec());
}

// Bit 15 of the pattern: quads with two bits for each lane. Otherwise, in groups of 32: and, or, xor masks.
unsigned swizzled(unsigned lane, u32 pattern) {
  if (pattern & 0x8000) return (lane & ~3u) | (pattern >> (2 * (lane & 3)) & 3);
  const u32 keep = pattern & 31, set = pattern >> 5 & 31, flip = pattern >> 10 & 31;
  return (lane & 32) | (((lane & 31 & keep) | set) ^ flip);
}

void swizzle(Wave& wave, const Instruction& in) {
  const u32* data = wave.vector[in.operand(1).index];
  const u32 pattern = static_cast<u16>(in.immediate());
  const u64 exec = wave.exec();
  Lanes<u32> results{};
  for_active(wave, [&](unsigned l) {
    const unsigned other = swizzled(l, pattern);
    results[l] = exec >> other & 1 ? data[other] : 0;
  });
  merge(wave.vector[in.operand(0).index], results.lane, exec);
}

}  // namespace

void add_cross_lane(Table& t) {
  t.add("v_readfirstlane_b32", read_first);
  t.add("v_readlane_b32", read_lane);
  t.add("v_writelane_b32", write_lane);
  t.add("v_mbcnt_lo_u32_b32", count_lower<false>);
  t.add("v_mbcnt_hi_u32_b32", count_lower<true>);
  t.add("ds_bpermute_b32", bpermute);
  t.add("ds_permute_b32", permute);
  t.add("ds_swizzle_b32", swizzle);
}

}  // namespace amd_gpu
