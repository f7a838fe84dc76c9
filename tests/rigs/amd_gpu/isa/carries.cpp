// Instructions with a second, scalar result or source: a mask with one bit for each lane.
// Source: AMD Instinct MI300 ISA, "VOP2 Instructions", "VOP3A & VOP3B Instructions".
#include "lanes.h"

namespace amd_gpu {
namespace {

// In 32 bits throughout, for the loop over lanes to be vectorised.
struct Sum {
  u32 value, carry;
};
Sum add(u32 a, u32 b, u32 carry) {
  const u32 sum = a + b, whole = sum + carry;
  return {whole, static_cast<u32>(sum < a) | static_cast<u32>(whole < sum)};
}
Sum subtract(u32 a, u32 b, u32 borrow) {
  const u32 difference = a - b;
  return {difference - borrow, static_cast<u32>(a < b) | static_cast<u32>(difference < borrow)};
}

// Operands: result, carry out, two sources, and carry in where the instruction has one.
template <class F>
void with_carry(Table& table, std::initializer_list<std::string_view> mnemonics, F) {
  for (const std::string_view mnemonic : mnemonics) {
    table.add(mnemonic, [](Wave& wave, const Instruction& in) {
      Lanes<u32> room_a, room_b, results, carried;
      const u32* a = source<u32>(wave, in, 2, 0, room_a);
      const u32* b = source<u32>(wave, in, 3, 1, room_b);
      spread(in.operand_count > 4 ? wave.get64(in.operand(4)) : 0, carried.lane);
      for (unsigned l = 0; l < lanes; l++) {
        const Sum sum = F{}(a[l], b[l], carried[l]);
        results[l] = sum.value;
        carried[l] = sum.carry;
      }
      const u64 exec = wave.exec();
      put(wave, in, 0, results);
      put_mask(wave, in.operand(1), mask_of(carried) & exec);
    });
  }
}

// v_mad_u64_u32: 32-bit factors, a 64-bit sum and its carry.
template <class Factor, class Total>
void wide_product(Wave& wave, const Instruction& in) {
  Lanes<Factor> room_a, room_b;
  Lanes<Total> room_c, results;
  Lanes<u8> carries;
  const Factor* a = source<Factor>(wave, in, 2, 0, room_a);
  const Factor* b = source<Factor>(wave, in, 3, 1, room_b);
  const Total* c = source<Total>(wave, in, 4, 2, room_c);
  for (unsigned l = 0; l < lanes; l++) {
    const Total product = static_cast<Total>(a[l]) * static_cast<Total>(b[l]);
    Total sum;
    carries[l] = __builtin_add_overflow(product, c[l], &sum);
    results[l] = sum;
  }
  const u64 exec = wave.exec();
  put(wave, in, 0, results);
  put_mask(wave, in.operand(1), mask_of(carries) & exec);
}

// Operands: result, sources for 0 and 1, mask (vcc where the text has none). Signs are of floats.
void select(Wave& wave, const Instruction& in) {
  Lanes<f32> room_a, room_b, results;
  const f32* a = source<f32>(wave, in, 1, 0, room_a);
  const f32* b = source<f32>(wave, in, 2, 1, room_b);
  const u64 mask = in.operand_count > 3 ? wave.get64(in.operand(3)) : wave.vcc();
  copy_row(reinterpret_cast<u32*>(results.lane), reinterpret_cast<const u32*>(a));
  merge(reinterpret_cast<u32*>(results.lane), reinterpret_cast<const u32*>(b), mask);
  put(wave, in, 0, results);
}

}  // namespace

void add_carries(Table& t) {
  with_carry(t, {"v_add_co_u32", "v_addc_co_u32"}, [](u32 a, u32 b, u32 c) { return add(a, b, c); });
  with_carry(t, {"v_sub_co_u32", "v_subb_co_u32"}, [](u32 a, u32 b, u32 c) { return subtract(a, b, c); });
  with_carry(t, {"v_subrev_co_u32", "v_subbrev_co_u32"},
             [](u32 a, u32 b, u32 c) { return subtract(b, a, c); });
  t.add("v_mad_u64_u32", wide_product<u32, u64>);
  t.add("v_mad_i64_i32", wide_product<i32, i64>);
  t.add("v_cndmask_b32", select);
}

}  // namespace amd_gpu
