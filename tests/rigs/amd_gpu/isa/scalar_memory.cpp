// SMEM: loads and stores of the scalar unit, and its clocks.
// Source: AMD Instinct MI300 ISA, "Scalar Memory Operations".
#include "scalar.h"

namespace amd_gpu {
namespace {

// The operand behind the base: a register or a number, added to the instruction's offset.
u64 extra_offset(const Wave& wave, const Instruction& in) {
  return in.operand_count > 2 ? wave.get32(in.operand(2)) : 0;
}

u64 address(const Wave& wave, const Instruction& in) {
  const u64 va = wave.get64(in.operand(1)) + static_cast<u64>(i64{in.offset}) + extra_offset(wave, in);
  return va & ~u64{3};  // the lowest two bits are ignored
}

template <unsigned words>
void load(Wave& wave, const Instruction& in) {
  const u64 va = address(wave, in);
  u32* to = &wave.scalar[in.operand(0).index];
  wave.reach.refresh();
  if (const u8* from = wave.reach.inside_one_if(va, words * 4, false))
    std::memcpy(to, from, words * 4);
  else
    wave.reach.read(va, to, words * 4);
}

template <unsigned words>
void store(Wave& wave, const Instruction& in) {
  wave.reach.refresh();
  wave.reach.write(address(wave, in), &wave.scalar[in.operand(0).index], words * 4);
}

// What lies behind the buffer's end reads as zero.
template <unsigned words>
void buffer_load(Wave& wave, const Instruction& in) {
  const u32* descriptor = &wave.scalar[in.operand(1).index];
  const u64 base = join(descriptor[0], descriptor[1] & 0xffff);
  const u32 stride = descriptor[1] >> 16 & 0x3fff;
  const u64 end = u64{descriptor[2]} * (stride ? stride : 1);
  const u64 first = (static_cast<u64>(i64{in.offset}) + extra_offset(wave, in)) & ~u64{3};
  wave.reach.refresh();
  u32 values[words] = {};
  for (unsigned k = 0; k < words; k++) {
    if (first + 4 * k + 4 <= end) wave.reach.read(base + first + 4 * k, &values[k], 4);
  }
  std::memcpy(&wave.scalar[in.operand(0).index], values, sizeof values);
}

void read_clock(Wave& wave, const Instruction& in) {
  wave.put64(in.operand(0), gpu_clock());
}
void nothing(Wave&, const Instruction&) {}

}  // namespace

void add_scalar_memory(Table& t) {
  t.add("s_load_dword", load<1>);
  t.add("s_load_dwordx2", load<2>);
  t.add("s_load_dwordx4", load<4>);
  t.add("s_load_dwordx8", load<8>);
  t.add("s_load_dwordx16", load<16>);
  t.add("s_store_dword", store<1>);
  t.add("s_store_dwordx2", store<2>);
  t.add("s_store_dwordx4", store<4>);
  t.add("s_buffer_load_dword", buffer_load<1>);
  t.add("s_buffer_load_dwordx2", buffer_load<2>);
  t.add("s_buffer_load_dwordx4", buffer_load<4>);
  t.add("s_buffer_load_dwordx8", buffer_load<8>);
  t.add("s_buffer_load_dwordx16", buffer_load<16>);
  t.add("s_memtime", read_clock);
  t.add("s_memrealtime", read_clock);
  // There are no caches to write back or to invalidate.
  for (const char* name : {"s_dcache_inv", "s_dcache_inv_vol", "s_dcache_wb", "s_dcache_wb_vol"}) {
    t.add_words_only(name, nothing);
  }
}

}  // namespace amd_gpu
