// SOP2, SOP1 and SOPK: integer arithmetic, selection and moves of the scalar unit.
// Source: AMD Instinct MI300 ISA, "SOP2 Instructions", "SOPK Instructions", "SOP1 Instructions".
#include "scalar.h"

namespace amd_gpu {
namespace {

template <class T>
WithScc<T> limited(i64 exact) {
  return {static_cast<T>(exact), exact != static_cast<i32>(exact)};
}

// Sums and differences that take the condition code as carry.
void add_carry(Table& table) {
  table.add("s_addc_u32", [](Wave& wave, const Instruction& in) {
    const u64 sum = u64{wave.get32(in.operand(1))} + wave.get32(in.operand(2)) + wave.scc;
    put_scalar(wave, in, WithScc{low32(sum), high32(sum) != 0});
  });
  table.add("s_subb_u32", [](Wave& wave, const Instruction& in) {
    const u64 from = wave.get32(in.operand(1)), by = u64{wave.get32(in.operand(2))} + wave.scc;
    put_scalar(wave, in, WithScc{low32(from - by), by > from});
  });
}

// The condition code chooses.
void add_select(Table& table) {
  table.add("s_cselect_b32", [](Wave& wave, const Instruction& in) {
    put_scalar(wave, in, wave.get32(in.operand(wave.scc ? 1 : 2)));
  });
  table.add("s_cselect_b64", [](Wave& wave, const Instruction& in) {
    put_scalar(wave, in, wave.get64(in.operand(wave.scc ? 1 : 2)));
  });
  table.add("s_cmov_b32", [](Wave& wave, const Instruction& in) {
    if (wave.scc) put_scalar(wave, in, wave.get32(in.operand(1)));
  });
  table.add("s_cmov_b64", [](Wave& wave, const Instruction& in) {
    if (wave.scc) put_scalar(wave, in, wave.get64(in.operand(1)));
  });
  table.add("s_cmovk_i32", [](Wave& wave, const Instruction& in) {
    if (wave.scc) put_scalar(wave, in, i32{in.immediate()});
  });
}

// Registers that M0 chooses.
void add_relative(Table& table) {
  table.add("s_movrels_b32", [](Wave& wave, const Instruction& in) {
    put_scalar(wave, in, wave.read_scalar(static_cast<u16>(in.operand(1).index + wave.scalar[m0])));
  });
  table.add("s_movrels_b64", [](Wave& wave, const Instruction& in) {
    put_scalar(wave, in, wave.read_scalar_pair(static_cast<u16>(in.operand(1).index + wave.scalar[m0])));
  });
  table.add("s_movreld_b32", [](Wave& wave, const Instruction& in) {
    const u32 index = in.operand(0).index + wave.scalar[m0];
    if (index < scalar_registers) wave.scalar[index] = wave.get32(in.operand(1));
  });
  table.add("s_movreld_b64", [](Wave& wave, const Instruction& in) {
    const u32 index = in.operand(0).index + wave.scalar[m0];
    if (index + 1 < scalar_registers) wave.set_pair(static_cast<u16>(index), wave.get64(in.operand(1)));
  });
}

}  // namespace

void add_scalar_arithmetic(Table& t) {
  scalar(t, "s_add_u32", [](u32 a, u32 b) { return WithScc{a + b, a + b < a}; });
  scalar(t, "s_sub_u32", [](u32 a, u32 b) { return WithScc{a - b, b > a}; });
  scalar(t, "s_add_i32", [](i32 a, i32 b) { return limited<i32>(i64{a} + b); });
  scalar(t, "s_sub_i32", [](i32 a, i32 b) { return limited<i32>(i64{a} - b); });
  scalar(t, "s_absdiff_i32",
         [](i32 a, i32 b) { return nonzero(low32(static_cast<u64>(std::abs(i64{a} - b)))); });
  scalar(t, "s_mul_i32", [](u32 a, u32 b) { return a * b; });
  scalar(t, "s_mul_hi_u32", [](u32 a, u32 b) { return high32(u64{a} * b); });
  scalar(t, "s_mul_hi_i32", [](i32 a, i32 b) { return high32(static_cast<u64>(i64{a} * b)); });
  scalar(t, "s_min_u32", [](u32 a, u32 b) { return WithScc{min_of(a, b), a < b}; });
  scalar(t, "s_max_u32", [](u32 a, u32 b) { return WithScc{max_of(a, b), a > b}; });
  scalar(t, "s_min_i32", [](i32 a, i32 b) { return WithScc{min_of(a, b), a < b}; });
  scalar(t, "s_max_i32", [](i32 a, i32 b) { return WithScc{max_of(a, b), a > b}; });
  scalar(t, "s_lshl1_add_u32", [](u32 a, u32 b) {
    const u64 r = (u64{a} << 1) + b;
    return WithScc{low32(r), high32(r) != 0};
  });
  scalar(t, "s_lshl2_add_u32", [](u32 a, u32 b) {
    const u64 r = (u64{a} << 2) + b;
    return WithScc{low32(r), high32(r) != 0};
  });
  scalar(t, "s_lshl3_add_u32", [](u32 a, u32 b) {
    const u64 r = (u64{a} << 3) + b;
    return WithScc{low32(r), high32(r) != 0};
  });
  scalar(t, "s_lshl4_add_u32", [](u32 a, u32 b) {
    const u64 r = (u64{a} << 4) + b;
    return WithScc{low32(r), high32(r) != 0};
  });
  scalar(t, "s_abs_i32", [](u32 a) { return nonzero(a >> 31 ? 0 - a : a); });
  scalar(t, "s_sext_i32_i8", [](u32 a) { return i32{static_cast<i8>(a)}; });
  scalar(t, "s_sext_i32_i16", [](u32 a) { return i32{static_cast<i16>(a)}; });
  scalar(t, "s_mov_b32", [](u32 a) { return a; });
  scalar(t, "s_mov_b64", [](u64 a) { return a; });
  scalar_immediate(t, "s_movk_i32", [](u32, i16 k) { return i32{k}; });
  scalar_immediate(t, "s_addk_i32", [](u32 a, i16 k) { return limited<i32>(i64{static_cast<i32>(a)} + k); });
  scalar_immediate(t, "s_mulk_i32", [](u32 a, i16 k) { return a * static_cast<u32>(i32{k}); });
  add_carry(t);
  add_select(t);
  add_relative(t);
}

}  // namespace amd_gpu
