// Moves, logic, shifts, bit fields, counts and byte permutations of the vector unit.
// Source: AMD Instinct MI300 ISA, "VOP1 Instructions", "VOP2 Instructions", "VOP3A & VOP3B Instructions".
#include "lanes.h"

namespace amd_gpu {
namespace {

u32 reversed(u32 value) {
  value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
  value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
  value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(value);
}

u32 unsigned_field(u32 value, u32 first, u32 width) {
  return value >> (first & 31) & ((1u << (width & 31)) - 1);
}

i32 signed_field(i32 value, u32 first, u32 width) {
  first &= 31, width &= 31;
  if (!width) return 0;
  if (first + width >= 32) return value >> first;
  return static_cast<i32>(static_cast<u32>(value) << (32 - first - width)) >> (32 - width);
}

// Byte k of `chosen` is a byte of a:b (0 to 7), a sign of one of its 16-bit parts (8 to 11), 0 (12) or 255.
u32 permuted(u32 a, u32 b, u32 chosen) {
  const u64 bytes = join(b, a);
  u32 result = 0;
  for (unsigned k = 0; k < 4; k++) {
    const u32 which = chosen >> (8 * k) & 0xff;
    u32 value = 0xff;
    if (which < 8)
      value = bytes >> (8 * which) & 0xff;
    else if (which < 12)
      value = bytes >> (16 * (which - 8) + 15) & 1 ? 0xff : 0;
    else if (which == 12)
      value = 0;
    result |= value << (8 * k);
  }
  return result;
}

void add_counts(Table& t) {
  vector(t, "v_bfrev_b32", [](u32 a) { return reversed(a); });
  vector(t, "v_ffbh_u32", [](u32 a) { return a ? static_cast<u32>(std::countl_zero(a)) : ~0u; });
  vector(t, "v_ffbl_b32", [](u32 a) { return a ? static_cast<u32>(std::countr_zero(a)) : ~0u; });
  vector(t, "v_ffbh_i32", [](i32 a) {
    const u32 folded = static_cast<u32>(a < 0 ? ~a : a);
    return folded ? static_cast<u32>(std::countl_zero(folded)) : ~0u;
  });
  vector(t, "v_bcnt_u32_b32", [](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; });
}

void add_moves(Table& t) {
  for (const char* name : {"v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32",
                           "v_accvgpr_read", "v_accvgpr_write"}) {
    vector(t, name, [](u32 a) { return a; });
  }
  vector(t, "v_mov_b64", [](u64 a) { return a; });
  t.add("v_swap_b32", [](Wave& wave, const Instruction& in) {
    u32 *a = wave.vector[in.operand(0).index], *b = wave.vector[in.operand(1).index];
    for_active(wave, [&](unsigned l) { std::swap(a[l], b[l]); });
  });
}

}  // namespace

void add_vector_bits(Table& t) {
  add_moves(t);
  add_counts(t);
  vector(t, "v_not_b32", [](u32 a) { return ~a; });
  vector(t, "v_and_b32", [](u32 a, u32 b) { return a & b; });
  vector(t, "v_or_b32", [](u32 a, u32 b) { return a | b; });
  vector(t, "v_xor_b32", [](u32 a, u32 b) { return a ^ b; });
  vector(t, "v_xnor_b32", [](u32 a, u32 b) { return ~(a ^ b); });
  vector(t, "v_or3_b32", [](u32 a, u32 b, u32 c) { return a | b | c; });
  vector(t, "v_and_or_b32", [](u32 a, u32 b, u32 c) { return (a & b) | c; });
  vector(t, "v_lshl_or_b32", [](u32 a, u32 b, u32 c) { return a << (b & 31) | c; });
  // "rev": the shift count comes first.
  vector(t, "v_lshlrev_b32", [](u32 a, u32 b) { return b << (a & 31); });
  vector(t, "v_lshrrev_b32", [](u32 a, u32 b) { return b >> (a & 31); });
  vector(t, "v_ashrrev_i32", [](u32 a, i32 b) { return b >> (a & 31); });
  in_words(t, "v_lshlrev_b64", [](u32 a, Words b) { return shifted(b, a & 63); });
  vector(t, "v_lshrrev_b64", [](u32 a, u64 b) { return b >> (a & 63); });
  vector(t, "v_ashrrev_i64", [](u32 a, i64 b) { return b >> (a & 63); });
  vector(t, "v_bfe_u32", [](u32 a, u32 b, u32 c) { return unsigned_field(a, b, c); });
  vector(t, "v_bfe_i32", [](i32 a, u32 b, u32 c) { return signed_field(a, b, c); });
  vector(t, "v_bfi_b32", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  vector(t, "v_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  vector(t, "v_alignbit_b32", [](u32 a, u32 b, u32 c) { return low32(join(b, a) >> (c & 31)); });
  vector(t, "v_alignbyte_b32", [](u32 a, u32 b, u32 c) { return low32(join(b, a) >> (8 * (c & 3))); });
  vector(t, "v_perm_b32", [](u32 a, u32 b, u32 c) { return permuted(a, b, c); });
  vector(t, "v_pack_b32_f16", [](u16 a, u16 b) { return pack(a, b); });
}

}  // namespace amd_gpu
