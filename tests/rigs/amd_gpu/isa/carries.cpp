// Instructions with a second, scalar result or source: a mask with one bit for each lane.
// Source: AMD Instinct MI300 ISA, "VOP2 Instructions", "VOP3A & VOP3B Instructions".
#include "lanes.h"

namespace amd_gpu {
namespace {

u64 mask_of_less(const Sixteen<u32>& a, const Sixteen<u32>& b) {
#if defined(__AVX512F__)
  return _mm512_cmplt_epu32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
#else
  return mask_of(a < b);
#endif
}
Sixteen<u32> ones_of(u64 mask, unsigned first) {
  return -reinterpret_cast<Sixteen<u32>>(flags_of(mask, first));
}

struct Sum {
  Sixteen<u32> value;
  u64 carry;
};
struct Add {
  static Sum of(const Sixteen<u32>& a, const Sixteen<u32>& b, const Sixteen<u32>& carry) {
    const Sixteen<u32> sum = a + b, whole = sum + carry;
    return {whole, mask_of_less(sum, a) | mask_of_less(whole, sum)};
  }
};
struct Subtract {
  static Sum of(const Sixteen<u32>& a, const Sixteen<u32>& b, const Sixteen<u32>& borrow) {
    const Sixteen<u32> difference = a - b;
    return {difference - borrow, mask_of_less(a, b) | mask_of_less(difference, borrow)};
  }
};
struct SubtractReversed {
  static Sum of(const Sixteen<u32>& a, const Sixteen<u32>& b, const Sixteen<u32>& borrow) {
    return Subtract::of(b, a, borrow);
  }
};

// Operands: result, carry out, two sources, and carry in where the instruction has one.
template <class Operation, bool takes_carry>
void with_carry(Wave& wave, const Instruction& in) {
  Lanes<u32> room_a, room_b, results;
  const Rows<u32> a = rows_of(wave, in, 2, 0, room_a), b = rows_of(wave, in, 3, 1, room_b);
  const u64 carry = takes_carry ? wave.get64(in.operand(4)) : 0, exec = wave.exec();
  const bool in_place = in.plain && exec == ~u64{0};
  u32* to = in_place ? wave.vector[in.operand(0).index] : results.lane;
  u64 out = 0;
  for (unsigned r = 0; r < rows; r++) {
    const unsigned l = r * sixteen;
    const Sixteen<u32> ones = takes_carry ? ones_of(carry, l) : Sixteen<u32>{};
    const Sum sum = Operation::of(sixteen_at(a[r]), sixteen_at(b[r]), ones);
    *reinterpret_cast<Sixteen<u32>*>(to + l) = sum.value;
    out |= sum.carry << l;
  }
  if (!in_place) put(wave, in, 0, results);
  put_mask(wave, in.operand(1), out & exec);
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
  const Rows<f32> a = rows_of(wave, in, 1, 0, room_a), b = rows_of(wave, in, 2, 1, room_b);
  const u64 mask = in.operand_count > 3 ? wave.get64(in.operand(3)) : wave.vcc(), exec = wave.exec();
  const bool direct = in.plain;
  u32* to = direct ? wave.vector[in.operand(0).index] : reinterpret_cast<u32*>(results.lane);
  for (unsigned r = 0; r < rows; r++) {
    const unsigned l = r * sixteen;
    const auto chosen =
        reinterpret_cast<Sixteen<u32>>(flags_of(mask, l) ? sixteen_at(b[r]) : sixteen_at(a[r]));
    store_sixteen(to + l, chosen, direct ? exec : ~u64{0}, l);
  }
  if (!direct) put(wave, in, 0, results);
}

}  // namespace

void add_carries(Table& t) {
  t.add("v_add_co_u32", with_carry<Add, false>);
  t.add("v_addc_co_u32", with_carry<Add, true>);
  t.add("v_sub_co_u32", with_carry<Subtract, false>);
  t.add("v_subb_co_u32", with_carry<Subtract, true>);
  t.add("v_subrev_co_u32", with_carry<SubtractReversed, false>);
  t.add("v_subbrev_co_u32", with_carry<SubtractReversed, true>);
  t.add("v_mad_u64_u32", wide_product<u32, u64>);
  t.add("v_mad_i64_i32", wide_product<i32, i64>);
  t.add("v_cndmask_b32", select);
}

}  // namespace amd_gpu
