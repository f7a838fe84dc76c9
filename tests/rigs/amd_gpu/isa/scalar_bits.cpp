// SOP2 and SOP1: logic, shifts, bit fields, counts and the EXEC mask.
// Source: AMD Instinct MI300 ISA, "SOP2 Instructions", "SOP1 Instructions".
#include "scalar.h"

namespace amd_gpu {
namespace {

// Fields: bits 5:0 of `where` are the first bit, bits 22:16 the width.
template <class T>
T field(T value, u32 where) {
  constexpr u32 bits = 8 * sizeof(T);
  const u32 first = where & (bits - 1), width = where >> 16 & 127;
  if (width == 0) return 0;
  if (first + width >= bits) return value >> first;  // arithmetic where T is signed
  using Unsigned = std::make_unsigned_t<T>;
  const T top = static_cast<T>(static_cast<Unsigned>(value) << (bits - first - width));
  return static_cast<T>(top >> (bits - width));
}

template <class T>
T bit_mask(u32 width, u32 first) {
  constexpr u32 bits = 8 * sizeof(T);
  return static_cast<T>(((T{1} << (width & (bits - 1))) - 1) << (first & (bits - 1)));
}

template <class T>
u32 first_one(T value) {
  return value ? static_cast<u32>(std::countr_zero(value)) : ~0u;
}
template <class T>
u32 leading(T value) {
  return value ? static_cast<u32>(std::countl_zero(value)) : ~0u;
}
// The position from the top of the first bit that differs from the sign.
template <class T>
u32 leading_signed(T value) {
  const T folded = value >> (8 * sizeof(T) - 1) ? static_cast<T>(~value) : value;
  return leading(folded);
}

template <class T>
T reversed(T value) {
  T result = 0;
  for (unsigned k = 0; k < 8 * sizeof(T); k++) result |= (value >> k & 1) << (8 * sizeof(T) - 1 - k);
  return result;
}

// One bit for each quad with a bit set; and whole quads.
template <class T>
T quads(T value) {
  T result = 0;
  for (unsigned k = 0; k < 2 * sizeof(T); k++) result |= static_cast<T>((value >> (4 * k) & 15) != 0) << k;
  return result;
}
template <class T>
T whole_quads(T value) {
  T result = 0;
  for (unsigned k = 0; k < 2 * sizeof(T); k++) result |= (value >> (4 * k) & 15 ? T{15} : T{0}) << (4 * k);
  return result;
}

// s_OP_saveexec: the destination gets EXEC, then EXEC = f(source, EXEC). s_OP_wrexec: both get f.
template <class F>
void exec_mask(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic, [](Wave& wave, const Instruction& in) {
    const u64 old = wave.exec(), next = F{}(wave.get64(in.operand(1)), old);
    wave.put64(in.operand(0), old);
    wave.set_exec(next);
    wave.scc = next != 0;
  });
}
template <class F>
void exec_both(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic, [](Wave& wave, const Instruction& in) {
    const u64 next = F{}(wave.get64(in.operand(1)), wave.exec());
    wave.put64(in.operand(0), next);
    wave.set_exec(next);
    wave.scc = next != 0;
  });
}

void add_logic(Table& t) {
  scalar(t, "s_and_b32", [](u32 a, u32 b) { return nonzero(a & b); });
  scalar(t, "s_and_b64", [](u64 a, u64 b) { return nonzero(a & b); });
  scalar(t, "s_or_b32", [](u32 a, u32 b) { return nonzero(a | b); });
  scalar(t, "s_or_b64", [](u64 a, u64 b) { return nonzero(a | b); });
  scalar(t, "s_xor_b32", [](u32 a, u32 b) { return nonzero(a ^ b); });
  scalar(t, "s_xor_b64", [](u64 a, u64 b) { return nonzero(a ^ b); });
  scalar(t, "s_andn2_b32", [](u32 a, u32 b) { return nonzero(a & ~b); });
  scalar(t, "s_andn2_b64", [](u64 a, u64 b) { return nonzero(a & ~b); });
  scalar(t, "s_orn2_b32", [](u32 a, u32 b) { return nonzero(a | ~b); });
  scalar(t, "s_orn2_b64", [](u64 a, u64 b) { return nonzero(a | ~b); });
  scalar(t, "s_nand_b32", [](u32 a, u32 b) { return nonzero(~(a & b)); });
  scalar(t, "s_nand_b64", [](u64 a, u64 b) { return nonzero(~(a & b)); });
  scalar(t, "s_nor_b32", [](u32 a, u32 b) { return nonzero(~(a | b)); });
  scalar(t, "s_nor_b64", [](u64 a, u64 b) { return nonzero(~(a | b)); });
  scalar(t, "s_xnor_b32", [](u32 a, u32 b) { return nonzero(~(a ^ b)); });
  scalar(t, "s_xnor_b64", [](u64 a, u64 b) { return nonzero(~(a ^ b)); });
  scalar(t, "s_not_b32", [](u32 a) { return nonzero(~a); });
  scalar(t, "s_not_b64", [](u64 a) { return nonzero(~a); });
}

void add_shifts_and_fields(Table& t) {
  scalar(t, "s_lshl_b32", [](u32 a, u32 b) { return nonzero(a << (b & 31)); });
  scalar(t, "s_lshl_b64", [](u64 a, u32 b) { return nonzero(a << (b & 63)); });
  scalar(t, "s_lshr_b32", [](u32 a, u32 b) { return nonzero(a >> (b & 31)); });
  scalar(t, "s_lshr_b64", [](u64 a, u32 b) { return nonzero(a >> (b & 63)); });
  scalar(t, "s_ashr_i32", [](i32 a, u32 b) { return nonzero(a >> (b & 31)); });
  scalar(t, "s_ashr_i64", [](i64 a, u32 b) { return nonzero(a >> (b & 63)); });
  scalar(t, "s_bfm_b32", [](u32 a, u32 b) { return bit_mask<u32>(a, b); });
  scalar(t, "s_bfm_b64", [](u32 a, u32 b) { return bit_mask<u64>(a, b); });
  scalar(t, "s_bfe_u32", [](u32 a, u32 b) { return nonzero(field(a, b)); });
  scalar(t, "s_bfe_i32", [](i32 a, u32 b) { return nonzero(field(a, b)); });
  scalar(t, "s_bfe_u64", [](u64 a, u32 b) { return nonzero(field(a, b)); });
  scalar(t, "s_bfe_i64", [](i64 a, u32 b) { return nonzero(field(a, b)); });
  scalar(t, "s_pack_ll_b32_b16", [](u32 a, u32 b) { return (a & 0xffff) | b << 16; });
  scalar(t, "s_pack_lh_b32_b16", [](u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000); });
  scalar(t, "s_pack_hh_b32_b16", [](u32 a, u32 b) { return a >> 16 | (b & 0xffff0000); });
}

void add_counts(Table& t) {
  scalar(t, "s_brev_b32", [](u32 a) { return reversed(a); });
  scalar(t, "s_brev_b64", [](u64 a) { return reversed(a); });
  scalar(t, "s_bcnt0_i32_b32", [](u32 a) { return nonzero(static_cast<u32>(std::popcount(~a))); });
  scalar(t, "s_bcnt0_i32_b64", [](u64 a) { return nonzero(static_cast<u32>(std::popcount(~a))); });
  scalar(t, "s_bcnt1_i32_b32", [](u32 a) { return nonzero(static_cast<u32>(std::popcount(a))); });
  scalar(t, "s_bcnt1_i32_b64", [](u64 a) { return nonzero(static_cast<u32>(std::popcount(a))); });
  scalar(t, "s_ff0_i32_b32", [](u32 a) { return first_one(~a); });
  scalar(t, "s_ff0_i32_b64", [](u64 a) { return first_one(~a); });
  scalar(t, "s_ff1_i32_b32", [](u32 a) { return first_one(a); });
  scalar(t, "s_ff1_i32_b64", [](u64 a) { return first_one(a); });
  scalar(t, "s_flbit_i32_b32", [](u32 a) { return leading(a); });
  scalar(t, "s_flbit_i32_b64", [](u64 a) { return leading(a); });
  scalar(t, "s_flbit_i32", [](u32 a) { return leading_signed(a); });
  scalar(t, "s_flbit_i32_i64", [](u64 a) { return leading_signed(a); });
  scalar(t, "s_quadmask_b32", [](u32 a) { return nonzero(quads(a)); });
  scalar(t, "s_quadmask_b64", [](u64 a) { return nonzero(quads(a)); });
  scalar(t, "s_wqm_b32", [](u32 a) { return nonzero(whole_quads(a)); });
  scalar(t, "s_wqm_b64", [](u64 a) { return nonzero(whole_quads(a)); });
  scalar(t, "s_bitreplicate_b64_b32", [](u32 a) {
    u64 result = 0;
    for (unsigned k = 0; k < 32; k++) result |= u64{a >> k & 1 ? 3u : 0u} << (2 * k);
    return result;
  });
}

// These change one bit of their destination.
void add_single_bits(Table& table) {
  table.add("s_bitset0_b32", [](Wave& wave, const Instruction& in) {
    wave.put32(in.operand(0), wave.get32(in.operand(0)) & ~(1u << (wave.get32(in.operand(1)) & 31)));
  });
  table.add("s_bitset1_b32", [](Wave& wave, const Instruction& in) {
    wave.put32(in.operand(0), wave.get32(in.operand(0)) | 1u << (wave.get32(in.operand(1)) & 31));
  });
  table.add("s_bitset0_b64", [](Wave& wave, const Instruction& in) {
    wave.put64(in.operand(0), wave.get64(in.operand(0)) & ~(u64{1} << (wave.get32(in.operand(1)) & 63)));
  });
  table.add("s_bitset1_b64", [](Wave& wave, const Instruction& in) {
    wave.put64(in.operand(0), wave.get64(in.operand(0)) | u64{1} << (wave.get32(in.operand(1)) & 63));
  });
}

void add_exec(Table& t) {
  exec_mask(t, "s_and_saveexec_b64", [](u64 a, u64 exec) { return a & exec; });
  exec_mask(t, "s_or_saveexec_b64", [](u64 a, u64 exec) { return a | exec; });
  exec_mask(t, "s_xor_saveexec_b64", [](u64 a, u64 exec) { return a ^ exec; });
  exec_mask(t, "s_andn1_saveexec_b64", [](u64 a, u64 exec) { return ~a & exec; });
  exec_mask(t, "s_andn2_saveexec_b64", [](u64 a, u64 exec) { return a & ~exec; });
  exec_mask(t, "s_orn1_saveexec_b64", [](u64 a, u64 exec) { return ~a | exec; });
  exec_mask(t, "s_orn2_saveexec_b64", [](u64 a, u64 exec) { return a | ~exec; });
  exec_mask(t, "s_nand_saveexec_b64", [](u64 a, u64 exec) { return ~(a & exec); });
  exec_mask(t, "s_nor_saveexec_b64", [](u64 a, u64 exec) { return ~(a | exec); });
  exec_mask(t, "s_xnor_saveexec_b64", [](u64 a, u64 exec) { return ~(a ^ exec); });
  exec_both(t, "s_andn1_wrexec_b64", [](u64 a, u64 exec) { return ~a & exec; });
  exec_both(t, "s_andn2_wrexec_b64", [](u64 a, u64 exec) { return a & ~exec; });
}

}  // namespace

void add_scalar_bits(Table& table) {
  add_logic(table);
  add_shifts_and_fields(table);
  add_counts(table);
  add_single_bits(table);
  add_exec(table);
}

}  // namespace amd_gpu
