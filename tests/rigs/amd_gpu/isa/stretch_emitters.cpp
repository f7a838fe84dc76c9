// What instructions that work lane by lane are on the host.
#include <map>

#include "stretch_row.h"

namespace amd_gpu {
namespace {

// --- sources in order, one result ------------------------------------------------------------------------

template <HostOp op, bool real = false>
void one(Row& row, const Instruction& in) {
  const Place from = real ? row.reals(in.operand(1)) : row.words(in.operand(1));
  const u8 to = row.fresh();
  row.code.emit(op, to, 0, from);
  row.define(in.operand(0), to);
}
void move_word(Row& row, const Instruction& in) {
  row.define(in.operand(0), row.copied(row.words(in.operand(1))));
}
template <u8 mode>
void rounded(Row& row, const Instruction& in) {
  const Place from = row.reals(in.operand(1));
  const u8 to = row.fresh();
  row.code.emit(round, to, 0, from, mode, no_mask);
  row.define(in.operand(0), to);
}

template <HostOp op, unsigned first = 1, unsigned second = 2>
void two(Row& row, const Instruction& in) {
  Place a = row.words(in.operand(first)), b = row.words(in.operand(second));
  if (a.in_memory && op.code != subtract.code) std::swap(a, b);
  row.define(in.operand(0), row.computed(op, a, b));
}
template <HostOp op, unsigned first = 1, unsigned second = 2>
void two_reals(Row& row, const Instruction& in) {
  const Place a = row.reals(in.operand(first)), b = row.reals(in.operand(second));
  row.define(in.operand(0), row.computed(op, a, b));
}
// Of (a `first` b) `second` c.
template <HostOp first, HostOp second>
void three(Row& row, const Instruction& in) {
  const Place a = row.words(in.operand(1)), b = row.words(in.operand(2)), c = row.words(in.operand(3));
  const u8 inner = row.computed(first, a, b);
  row.define(in.operand(0), row.computed(second, {.number = inner}, c));
}
void fused_product(Row& row, const Instruction& in) {
  const Place a = row.reals(in.operand(1)), b = row.reals(in.operand(2)), c = row.reals(in.operand(3));
  const u8 factor = row.in_register(b), to = row.copied(a);
  row.code.emit(product_plus, to, factor, c);
  row.define(in.operand(0), to);
}
void accumulated_product(Row& row, const Instruction& in) {
  const Place a = row.reals(in.operand(1)), b = row.reals(in.operand(2));
  const u8 factor = row.in_register(a);
  row.code.emit(plus_product, row.changed(in.operand(0)), factor, b);
}
void invert(Row& row, const Instruction& in) {
  const Place from = row.words(in.operand(1));
  row.define(in.operand(0), row.computed(different, row.number(~0u), from));
}
void select_bits(Row& row, const Instruction& in) {  // (a & b) | (~a & c)
  const Place a = row.words(in.operand(1)), b = row.words(in.operand(2)), c = row.words(in.operand(3));
  const u8 with = row.in_register(b), to = row.copied(a);
  row.code.emit(logic_of_three, to, with, c, 0xca, no_mask);
  row.define(in.operand(0), to);
}

// What is not normal becomes a zero of its sign.
void flush(Row& row, u8 value) {
  const u8 size = row.computed(both, {.number = value}, row.number(0x7fffffff));
  row.code.emit(compare_reals, first_part, size, row.number(0x00800000), less, no_mask);
  row.code.emit(both, value, value, row.number(0x80000000), first_part);
}
template <bool root>
void inverse(Row& row, const Instruction& in) {
  u8 from = row.copied(row.reals(in.operand(1)));
  flush(row, from);
  if (root) row.code.emit(square_root, from, 0, {.number = from});
  const u8 to = row.computed(divide, row.number(as<u32>(1.0f)), {.number = from});
  if (!root) flush(row, to);
  row.define(in.operand(0), to);
}
// As minimum() and maximum() of numbers.h have it.
template <u8 relation, HostOp of_equals>
void extreme(Row& row, const Instruction& in) {
  const u8 a = row.in_register(row.reals(in.operand(1))), b = row.in_register(row.reals(in.operand(2))),
           to = row.copied({.number = b});
  const auto where = [&](u8 holds, u8 left, u8 right, HostOp op, u8 with, const Place& value) {
    row.code.emit(compare_reals, first_part, left, {.number = right}, holds, no_mask);
    row.code.emit(op, to, with, value, first_part);
  };
  where(relation, a, b, move, 0, {.number = a});
  where(equal, a, b, of_equals, a, {.number = b});
  where(unordered, b, b, move, 0, {.number = a});
  where(unordered, a, a, add_reals, b, row.number(0));
  row.define(in.operand(0), to);
}
void scaled(Row& row, const Instruction& in) {
  const Place value = row.reals(in.operand(1)), power = row.words(in.operand(2));
  const u8 by = row.fresh();
  row.code.emit(signed_to_real, by, 0, power);
  row.define(in.operand(0), row.computed(times_power, value, {.number = by}));
}
// To integers, toward zero; what is too large becomes the largest, and a NaN zero.
void to_signed(Row& row, const Instruction& in) {
  const Place from = row.reals(in.operand(1));
  const u8 value = row.in_register(from), to = row.fresh();
  row.code.emit(real_to_signed, to, 0, {.number = value});
  row.code.emit(compare_reals, first_part, value, row.number(as<u32>(0x1p31f)), greater_or_equal, no_mask);
  row.code.emit(different, to, to, row.number(~0u), first_part);
  row.code.emit(compare_reals, first_part, value, {.number = value}, unordered, no_mask);
  row.code.emit(different, to, to, {.number = to}, first_part);
  row.define(in.operand(0), to);
}

// --- shifts, of which only the lowest five bits of a count matter ----------------------------------------

Place count(Row& row, const Operand& operand) {
  if (operand.is_constant()) return row.number(operand.constant->row[0] & 31);
  return {.number = row.computed(both, row.words(operand), row.number(31))};
}
template <HostOp op>
void shift_reversed(Row& row, const Instruction& in) {
  const Place by = count(row, in.operand(1)), value = row.words(in.operand(2));
  row.define(in.operand(0), row.computed(op, value, by));
}
template <HostOp op>
void shift_and(Row& row, const Instruction& in) {
  const Place value = row.words(in.operand(1)), by = count(row, in.operand(2)), c = row.words(in.operand(3));
  row.define(in.operand(0), row.computed(op, {.number = row.computed(shift_left, value, by)}, c));
}
void add_and_shift(Row& row, const Instruction& in) {
  const Place a = row.words(in.operand(1)), b = row.words(in.operand(2)), by = count(row, in.operand(3));
  row.define(in.operand(0), row.computed(shift_left, {.number = row.computed(add_words, a, b)}, by));
}
void unsigned_field(Row& row, const Instruction& in) {
  const Operand& width = in.operand(3);
  if (!width.is_constant()) throw NotHere{};
  const Place value = row.words(in.operand(1)), by = count(row, in.operand(2));
  const u8 shifted = row.computed(shift_right, value, by);
  const u32 kept = (1u << (width.constant->row[0] & 31)) - 1;
  row.define(in.operand(0), row.computed(both, {.number = shifted}, row.number(kept)));
}

// --- 64 bits ---------------------------------------------------------------------------------------------

struct Two {
  u8 low, high;
};
// Shifted left, by a number.
Two shifted(Row& row, const Operand& operand, const Operand& count, u32 limit) {
  if (!count.is_constant()) throw NotHere{};
  const u32 by = count.constant->row[0] & limit;
  const Place low = row.word_of_two(operand, 0), high = row.word_of_two(operand, 1);
  if (!by) return {row.copied(low), row.copied(high)};
  if (by >= 32) return {row.copied(row.number(0)), row.computed(shift_left, low, row.number(by - 32))};
  const u8 from_low = row.computed(shift_right, low, row.number(32 - by)),
           from_high = row.computed(shift_left, high, row.number(by));
  return {row.computed(shift_left, low, row.number(by)),
          row.computed(either, {.number = from_low}, {.number = from_high})};
}
void define_two(Row& row, const Operand& operand, Two made) {
  row.define(operand, 0, made.low);
  row.define(operand, 1, made.high);
}
void shift_two(Row& row, const Instruction& in) {
  define_two(row, in.operand(0), shifted(row, in.operand(2), in.operand(1), 63));
}
void shift_and_add_two(Row& row, const Instruction& in) {
  const Two a = shifted(row, in.operand(1), in.operand(2), 7);
  const Place low = row.word_of_two(in.operand(3), 0), high = row.word_of_two(in.operand(3), 1);
  const u8 sum = row.computed(add_words, {.number = a.low}, low),
           upper = row.computed(add_words, {.number = a.high}, high);
  row.code.emit(compare_unsigned, first_part, sum, {.number = a.low}, less, no_mask);
  row.code.emit(subtract, upper, upper, row.number(~0u), first_part);
  define_two(row, in.operand(0), {sum, upper});
}
void move_two(Row& row, const Instruction& in) {
  const u8 low = row.copied(row.word_of_two(in.operand(1), 0)),
           high = row.copied(row.word_of_two(in.operand(1), 1));
  define_two(row, in.operand(0), {low, high});
}

// --- two results from pairs of registers -----------------------------------------------------------------

Place packed_source(Row& row, const Instruction& in, unsigned slot, bool upper) {
  const bool picks_upper = (upper ? in.op_sel_hi : in.op_sel) >> slot & 1;
  return row.words(in.operand(1 + slot), picks_upper);
}
template <HostOp op>
void packed(Row& row, const Instruction& in) {
  u8 made[2];
  for (const bool upper : {false, true})
    made[upper] = row.computed(op, packed_source(row, in, 0, upper), packed_source(row, in, 1, upper));
  define_two(row, in.operand(0), {made[0], made[1]});
}
void packed_product(Row& row, const Instruction& in) {
  u8 made[2];
  for (const bool upper : {false, true}) {
    const u8 factor = row.in_register(packed_source(row, in, 1, upper));
    made[upper] = row.copied(packed_source(row, in, 0, upper));
    row.code.emit(product_plus, made[upper], factor, packed_source(row, in, 2, upper));
  }
  define_two(row, in.operand(0), {made[0], made[1]});
}
void packed_move(Row& row, const Instruction& in) {
  const u8 low = row.copied(row.words(in.operand(1), in.op_sel & 1)),
           high = row.copied(row.words(in.operand(2), in.op_sel >> 1 & 1));
  define_two(row, in.operand(0), {low, high});
}

// --- masks -----------------------------------------------------------------------------------------------

// Operands: result, carry out, two sources, and carry in where the instruction has one.
template <bool takes_carry>
void add_carrying(Row& row, const Instruction& in) {
  const u8 a = row.in_register(row.words(in.operand(2)));
  const u8 sum = row.computed(add_words, {.number = a}, row.words(in.operand(3)));
  const unsigned out = row.fresh_mask();
  u8 whole = sum;
  if (takes_carry) {
    if (!in.operand(4).is_scalar()) throw NotHere{};
    const unsigned carry = row.mask(in.operand(4).index);
    whole = row.copied({.number = sum});
    row.code.emit(subtract, whole, sum, row.number(~0u), carry);
    row.code.emit(compare_unsigned, first_part, sum, {.number = a}, less, no_mask);
    row.code.emit(compare_unsigned, second_part, whole, {.number = sum}, less, no_mask);
    row.code.or_masks(out, first_part, second_part);
  } else {
    row.code.emit(compare_unsigned, out, sum, {.number = a}, less, no_mask);
  }
  row.define_mask(in.operand(1));
  row.define(in.operand(0), whole);
}
template <bool takes_borrow, unsigned first, unsigned second>
void subtract_borrowing(Row& row, const Instruction& in) {
  const u8 a = row.in_register(row.words(in.operand(first)));
  const Place b = row.words(in.operand(second));
  const u8 difference = row.computed(subtract, {.number = a}, b);
  const unsigned out = row.fresh_mask();
  u8 whole = difference;
  if (takes_borrow) {
    if (!in.operand(4).is_scalar()) throw NotHere{};
    const unsigned borrow = row.mask(in.operand(4).index);
    whole = row.copied({.number = difference});
    row.code.emit(add_words, whole, difference, row.number(~0u), borrow);
    row.code.emit(compare_unsigned, first_part, a, b, less, no_mask);
    row.code.emit(compare_unsigned, second_part, difference, {.number = whole}, less, no_mask);
    row.code.or_masks(out, first_part, second_part);
  } else {
    row.code.emit(compare_unsigned, out, a, b, less, no_mask);
  }
  row.define_mask(in.operand(1));
  row.define(in.operand(0), whole);
}
void select(Row& row, const Instruction& in) {
  const bool named = in.operand_count > 3;
  if (named && !in.operand(3).is_scalar()) throw NotHere{};
  const Place a = row.reals(in.operand(1)), b = row.reals(in.operand(2));
  const u8 from = row.in_register(a), to = row.fresh();
  row.code.emit(choose, to, from, b, row.mask(named ? in.operand(3).index : static_cast<u16>(vcc_lo)));
  row.define(in.operand(0), to);
}
template <HostOp op, u8 relation>
void compare(Row& row, const Instruction& in) {
  constexpr bool real = op.code == compare_reals.code;
  const Place a = real ? row.reals(in.operand(1)) : row.words(in.operand(1)),
              b = real ? row.reals(in.operand(2)) : row.words(in.operand(2));
  row.code.emit(op, row.fresh_mask(), row.in_register(a), b, relation, no_mask);
  row.define_mask(in.operand(0));
}

// --- divisions, whose sides are no zeros and near no end of the exponents --------------------------------

// Jumps where a side is something else. Source: division.cpp.
std::vector<size_t> unless_ordinary(Row& row, const Place& denominator, const Place& numerator, u8 room) {
  unsigned found = first_part;
  for (const Place& side : {denominator, numerator}) {
    row.code.emit(both, room, side.number, row.number(0x7f800000), no_mask);
    row.code.emit(subtract, room, room, row.number(80u << 23), no_mask);
    row.code.emit(compare_unsigned, found, room, row.number(95u << 23), not_less,
                  row.masked ? active : no_mask);
    found = second_part;
  }
  row.code.test_masks(first_part, second_part);
  return {row.code.jump_if(HostCode::If::not_zero)};
}
Place real_in_register(Row& row, const Operand& operand) {
  return {.number = row.in_register(row.reals(operand))};
}
// Operands: result, mask, value, denominator, numerator.
void scale_for_division(Row& row, const Instruction& in) {
  const Operand& mask = in.operand(1);
  const Place value = row.reals(in.operand(2)), denominator = real_in_register(row, in.operand(3)),
              numerator = real_in_register(row, in.operand(4));
  const u8 to = row.copied(value), room = row.fresh();
  const std::vector<size_t> cases = unless_ordinary(row, denominator, numerator, room);
  row.code.empty_mask(row.fresh_mask());
  row.leave(in, cases, {to}, &mask);
  row.define_mask(mask);
  row.define(in.operand(0), to);
}
void last_step_of_division(Row& row, const Instruction& in) {
  const Place a = row.reals(in.operand(1)), b = row.reals(in.operand(2)), c = row.reals(in.operand(3));
  const u8 factor = row.in_register(b), to = row.copied(a);
  const unsigned scaled = row.mask(vcc_lo);
  if (row.masked)
    row.code.and_masks(first_part, scaled, active);
  else
    row.code.or_masks(first_part, scaled, scaled);
  row.code.test_masks(first_part, first_part);
  const size_t special = row.code.jump_if(HostCode::If::not_zero);
  row.code.emit(product_plus, to, factor, c);
  row.leave(in, {special}, {to});
  row.define(in.operand(0), to);
}
void fix_division(Row& row, const Instruction& in) {
  const Place quotient = row.reals(in.operand(1)), denominator = real_in_register(row, in.operand(2)),
              numerator = real_in_register(row, in.operand(3));
  const u8 value = row.in_register(quotient), to = row.copied(row.number(0x80000000)), room = row.fresh();
  const std::vector<size_t> cases = unless_ordinary(row, denominator, numerator, room);
  row.code.emit(different, room, denominator.number, numerator);
  row.code.emit(logic_of_three, to, room, {.number = value}, 0xca, no_mask);
  row.leave(in, cases, {to});
  row.define(in.operand(0), to);
}

// --- lower lanes -----------------------------------------------------------------------------------------

template <bool upper>
void count_lower(Row& row, const Instruction& in) {
  if (!in.operand(1).is_constant() || in.operand(1).constant->row[0] != ~0u) throw NotHere{};
  const u8 lower = row.numbers(
      [](unsigned lane) -> u32 { return upper ? (lane < 32 ? 0 : lane - 32) : (lane < 32 ? lane : 32); });
  row.define(in.operand(0), row.computed(add_words, {.number = lower}, row.words(in.operand(2))));
}

// --- which instructions there are ------------------------------------------------------------------------

using Emitters = std::map<std::string, Emit, std::less<>>;

template <HostOp op>
void add_integer_comparisons(Emitters& e, const std::string& type) {
  e["v_cmp_eq_" + type] = compare<op, 0>;
  e["v_cmp_lt_" + type] = compare<op, 1>;
  e["v_cmp_le_" + type] = compare<op, 2>;
  e["v_cmp_ne_" + type] = compare<op, 4>;
  e["v_cmp_ge_" + type] = compare<op, 5>;
  e["v_cmp_gt_" + type] = compare<op, 6>;
}
void add_comparisons(Emitters& e) {
  add_integer_comparisons<compare_signed>(e, "i32");
  add_integer_comparisons<compare_unsigned>(e, "u32");
  e["v_cmp_eq_f32"] = compare<compare_reals, 0x00>;
  e["v_cmp_lt_f32"] = compare<compare_reals, 0x01>;
  e["v_cmp_le_f32"] = compare<compare_reals, 0x02>;
  e["v_cmp_u_f32"] = compare<compare_reals, 0x03>;
  e["v_cmp_neq_f32"] = compare<compare_reals, 0x04>;
  e["v_cmp_nlt_f32"] = compare<compare_reals, 0x05>;
  e["v_cmp_nle_f32"] = compare<compare_reals, 0x06>;
  e["v_cmp_o_f32"] = compare<compare_reals, 0x07>;
  e["v_cmp_nlg_f32"] = compare<compare_reals, 0x08>;
  e["v_cmp_nge_f32"] = compare<compare_reals, 0x09>;
  e["v_cmp_ngt_f32"] = compare<compare_reals, 0x0a>;
  e["v_cmp_lg_f32"] = compare<compare_reals, 0x0c>;
  e["v_cmp_ge_f32"] = compare<compare_reals, 0x0d>;
  e["v_cmp_gt_f32"] = compare<compare_reals, 0x0e>;
}
void add_integers(Emitters& e) {
  e["v_add_u32"] = two<add_words>;
  e["v_sub_u32"] = two<subtract>;
  e["v_subrev_u32"] = two<subtract, 2, 1>;
  e["v_mul_lo_u32"] = two<multiply>;
  e["v_and_b32"] = two<both>;
  e["v_or_b32"] = two<either>;
  e["v_xor_b32"] = two<different>;
  e["v_max_i32"] = two<integer(0x3d, Map::m0F38)>;
  e["v_max_u32"] = two<integer(0x3f, Map::m0F38)>;
  e["v_min_i32"] = two<integer(0x39, Map::m0F38)>;
  e["v_min_u32"] = two<integer(0x3b, Map::m0F38)>;
  e["v_not_b32"] = invert;
  e["v_bfi_b32"] = select_bits;
  e["v_add3_u32"] = three<add_words, add_words>;
  e["v_xad_u32"] = three<different, add_words>;
  e["v_or3_b32"] = three<either, either>;
  e["v_and_or_b32"] = three<both, either>;
  e["v_lshl_add_u32"] = shift_and<add_words>;
  e["v_lshl_or_b32"] = shift_and<either>;
  e["v_add_lshl_u32"] = add_and_shift;
  e["v_lshlrev_b32"] = shift_reversed<shift_left>;
  e["v_lshrrev_b32"] = shift_reversed<shift_right>;
  e["v_ashrrev_i32"] = shift_reversed<shift_signed>;
  e["v_bfe_u32"] = unsigned_field;
  e["v_lshlrev_b64"] = shift_two;
  e["v_lshl_add_u64"] = shift_and_add_two;
}
void add_reals_and_moves(Emitters& e) {
  e["v_add_f32"] = two_reals<add_reals>;
  e["v_sub_f32"] = two_reals<subtract_reals>;
  e["v_subrev_f32"] = two_reals<subtract_reals, 2, 1>;
  e["v_mul_f32"] = two_reals<multiply_reals>;
  for (const char* name : {"v_fma_f32", "v_fmaak_f32", "v_fmamk_f32"}) e[name] = fused_product;
  e["v_min_f32"] = extreme<less, either>;
  e["v_max_f32"] = extreme<greater, both>;
  e["v_fmac_f32"] = accumulated_product;
  e["v_pk_add_f32"] = packed<add_reals>;
  e["v_pk_mul_f32"] = packed<multiply_reals>;
  e["v_pk_fma_f32"] = packed_product;
  e["v_rndne_f32"] = rounded<8>;
  e["v_floor_f32"] = rounded<9>;
  e["v_ceil_f32"] = rounded<10>;
  e["v_trunc_f32"] = rounded<11>;
  e["v_rcp_f32"] = e["v_rcp_iflag_f32"] = inverse<false>;
  e["v_rsq_f32"] = inverse<true>;
  e["v_sqrt_f32"] = one<square_root, true>;
  e["v_ldexp_f32"] = scaled;
  e["v_cvt_i32_f32"] = to_signed;
  e["v_cvt_f32_i32"] = one<signed_to_real>;
  e["v_cvt_f32_u32"] = one<unsigned_to_real>;
  for (const char* name : {"v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32",
                           "v_accvgpr_read", "v_accvgpr_write"})
    e[name] = move_word;
  e["v_mov_b64"] = move_two;
  e["v_pk_mov_b32"] = packed_move;
}
void add_masks(Emitters& e) {
  e["v_add_co_u32"] = add_carrying<false>;
  e["v_addc_co_u32"] = add_carrying<true>;
  e["v_sub_co_u32"] = subtract_borrowing<false, 2, 3>;
  e["v_subb_co_u32"] = subtract_borrowing<true, 2, 3>;
  e["v_subrev_co_u32"] = subtract_borrowing<false, 3, 2>;
  e["v_subbrev_co_u32"] = subtract_borrowing<true, 3, 2>;
  e["v_cndmask_b32"] = select;
}
void add_others(Emitters& e) {
  e["v_div_scale_f32"] = scale_for_division;
  e["v_div_fmas_f32"] = last_step_of_division;
  e["v_div_fixup_f32"] = fix_division;
  e["v_mbcnt_lo_u32_b32"] = count_lower<false>;
  e["v_mbcnt_hi_u32_b32"] = count_lower<true>;
  for (const char* name : {"global_load_dword", "flat_load_dword"}) e[name] = load_from_memory;
  e["global_store_dword"] = store_to_memory;
  e["ds_read_b32"] = read_words_of_lds<1>;
  e["ds_read_b64"] = read_words_of_lds<2>;
  e["ds_read_b96"] = read_words_of_lds<3>;
  e["ds_read_b128"] = read_words_of_lds<4>;
  e["ds_read2_b32"] = read_two_words_of_lds;
}

}  // namespace

Emit emitter_of(const Instruction& in) {
  static const Emitters& all = *[] {
    auto* made = new Emitters;  // leaked: queues of a process that exits may still run
    for (auto add : {add_comparisons, add_integers, add_reals_and_moves, add_masks, add_others}) add(*made);
    return made;
  }();
  if (!in.plain || in.negate_lo || in.negate_hi) return nullptr;
  if (in.op_sel && !in.mnemonic.starts_with("v_pk_")) return nullptr;
  const auto found = all.find(in.mnemonic);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace amd_gpu
