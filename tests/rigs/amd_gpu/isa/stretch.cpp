#include "stretch.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

#include "host_code.h"
#include "lanes.h"

namespace amd_gpu {
namespace {

constexpr size_t longest = 128, block_bytes = 64 << 10;

constexpr HostOp integer(u8 code, Map map = Map::m0F) {
  return {Prefix::p66, map, code};
}
constexpr HostOp move{Prefix::pF3, Map::m0F, 0x6f},
    add_words = integer(0xfe), subtract = integer(0xfa), multiply = integer(0x40, Map::m0F38),
    both = integer(0xdb), either = integer(0xeb), different = integer(0xef),
    shift_left = integer(0x47, Map::m0F38), shift_right = integer(0x45, Map::m0F38),
    shift_signed = integer(0x46, Map::m0F38), choose = integer(0x64, Map::m0F38),
    logic_of_three = integer(0x25, Map::m0F3A), compare_unsigned = integer(0x1e, Map::m0F3A),
    compare_signed = integer(0x1f, Map::m0F3A), round = integer(0x08, Map::m0F3A),
    product_plus = integer(0xa8, Map::m0F38), plus_product = integer(0xb8, Map::m0F38),
    add_reals{Prefix::none, Map::m0F, 0x58}, subtract_reals{Prefix::none, Map::m0F, 0x5c},
    multiply_reals{Prefix::none, Map::m0F, 0x59}, compare_reals{Prefix::none, Map::m0F, 0xc2},
    divide{Prefix::none, Map::m0F, 0x5e}, square_root{Prefix::none, Map::m0F, 0x51},
    times_power = integer(0x2c, Map::m0F38), real_to_signed{Prefix::pF3, Map::m0F, 0x5b},
    signed_to_real{Prefix::none, Map::m0F, 0x5b}, unsigned_to_real{Prefix::pF2, Map::m0F, 0x7a};
constexpr u8 equal = 0, less = 1, unordered = 3, greater_or_equal = 0x0d, greater = 0x0e;  // of comparisons
// Masks: two for results in turns, one that was loaded, two for what lies between, and EXEC.
constexpr unsigned results[] = {1, 2}, loaded = 3, first_part = 4, second_part = 5, active = 7;

struct NotHere {};  // an operand that only the instruction's own file knows

// Emits one row of a stretch. Vector registers are in the host's from their first use on, and go back where
// that is needed for another, and at the end.
class Row {
 public:
  Row(HostCode& code, std::vector<u32>& constants, unsigned number, bool masked)
      : code(code), constants_(constants), number_(number), masked_(masked) {
    host_of_.fill(none);
    if (masked_) code.load_mask(active, Base::rsi, mask_at(exec_lo));
  }

  HostCode& code;
  std::bitset<scalar_registers> read, written;

  // A source without signs; of registers, the one that is `behind` it.
  Place words(const Operand& operand, unsigned behind = 0) {
    if (operand.is_vector()) return {.number = host_of(operand.index + behind)};
    if (operand.is_constant()) return number(operand.constant->row[0]);
    const unsigned index = operand.index + behind;
    if (!operand.is_scalar() || index >= scalar_registers) throw NotHere{};
    read.set(index);
    return {true, 0, Base::rsi, static_cast<i32>(4 * index)};
  }
  // One word of a source of 64 bits.
  Place word_of_two(const Operand& operand, unsigned upper) {
    if (operand.kind == Operand::Kind::integer)
      return number(low32(static_cast<u64>(operand.constant->integer) >> (32 * upper)));
    if (operand.words != 2 || operand.is_constant()) throw NotHere{};
    return words(operand, upper);
  }
  Place reals(const Operand& operand) {
    Place from = words(operand);
    for (const auto& [wanted, op, bits] : {std::tuple{operand.absolute, both, 0x7fffffffu},
                                           std::tuple{operand.negate, different, 0x80000000u}}) {
      if (!wanted) continue;
      const u8 to = fresh();
      code.emit(op, to, in_register(from), number(bits));
      from = {.number = to};
    }
    return from;
  }
  Place number(u32 value) {
    size_t at = 0;
    while (at < constants_.size() && constants_[at] != value) at++;
    if (at == constants_.size()) constants_.push_back(value);
    return {true, 0, Base::rdx, static_cast<i32>(4 * at)};
  }
  u8 in_register(const Place& place) { return place.in_memory ? copied(place) : place.number; }
  u8 copied(const Place& place) {
    const u8 to = fresh();
    if (place.in_memory)
      code.broadcast(to, place);
    else
      code.emit(move, to, 0, place);
    return to;
  }
  u8 computed(HostOp op, const Place& a, const Place& b) {
    const u8 from = in_register(a), to = fresh();
    code.emit(op, to, from, b);
    return to;
  }

  // A mask that an instruction reads.
  unsigned mask(u16 index) {
    if (index == known_mask_) return results[known_result_];
    if (index >= scalar_registers) throw NotHere{};
    code.load_mask(loaded, Base::rsi, mask_at(index));
    return loaded;
  }
  // One that it makes, and where it goes then. Many are made again before anything reads them.
  unsigned fresh_mask() const { return results[!known_result_]; }
  void define_mask(const Operand& operand) {
    if (!operand.is_scalar() || operand.words != 2 || operand.index >= exec_lo) throw NotHere{};
    if (operand.index != known_mask_) store_mask();
    known_result_ = !known_result_, known_mask_ = operand.index;
    written.set(operand.index), written.set(operand.index + 1u);
    if (masked_) code.and_masks(results[known_result_], results[known_result_], active);
  }

  // A register for results, which become those of a vector register when all sources are read.
  u8 fresh() {
    u8 chosen = none;
    for (u8 host = 0; host < host_registers; host++) {
      if (pinned_ >> host & 1) continue;
      if (chosen == none || hosts_[host].last_use < hosts_[chosen].last_use) chosen = host;
    }
    release(chosen);
    pin(chosen);
    return chosen;
  }
  void define(const Operand& operand, unsigned behind, u8 host) {
    const unsigned index = operand.index + behind;
    if (const u8 before = host_of_[index]; before != none) hosts_[before] = {};
    host_of_[index] = host;
    hosts_[host] = {static_cast<i16>(index), true, ++clock_};
  }
  void define(const Operand& operand, u8 host) { define(operand, 0, host); }
  // One that an instruction changes in place.
  u8 changed(const Operand& operand) {
    const u8 host = host_of(operand.index);
    hosts_[host].changed = true;
    return host;
  }

  void end_instruction() { pinned_ = 0; }
  void end() {
    for (u8 host = 0; host < host_registers; host++) release(host);
    store_mask();
  }

 private:
  static constexpr u8 none = 0xff;
  static constexpr u16 no_register = 0xffff;
  struct Host {
    i16 vector = -1;
    bool changed = false;
    u32 last_use = 0;
  };

  i32 mask_at(unsigned index) const { return static_cast<i32>(4 * index + number_ * sixteen / 8); }
  i32 vector_at(unsigned index) const { return static_cast<i32>((index * rows + number_) * 4 * sixteen); }
  void store_mask() {
    if (known_mask_ != no_register) code.store_mask(Base::rsi, mask_at(known_mask_), results[known_result_]);
  }
  void pin(u8 host) { pinned_ |= 1u << host; }
  u8 host_of(unsigned index) {
    u8 host = host_of_[index];
    if (host == none) {
      host = fresh();
      code.load(host, Base::rdi, vector_at(index));
      host_of_[index] = host;
      hosts_[host].vector = static_cast<i16>(index);
    }
    hosts_[host].last_use = ++clock_;
    pin(host);
    return host;
  }
  void release(u8 host) {
    Host& old = hosts_[host];
    if (old.changed)
      code.store(Base::rdi, vector_at(static_cast<unsigned>(old.vector)), host, masked_ ? active : no_mask);
    if (old.vector >= 0) host_of_[static_cast<size_t>(old.vector)] = none;
    old = {};
  }

  std::vector<u32>& constants_;
  const unsigned number_;
  const bool masked_;
  std::array<u8, 512> host_of_;
  std::array<Host, host_registers> hosts_{};
  u32 pinned_ = 0, clock_ = 0;
  u16 known_mask_ = no_register;  // the scalar register of the last result
  bool known_result_ = false;
};

using Emit = void (*)(Row&, const Instruction&);

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

Emit emitter_of(const Instruction& in) {
  static const Emitters& all = *[] {
    auto* made = new Emitters;  // leaked: queues of a process that exits may still run
    for (auto add : {add_comparisons, add_integers, add_reals_and_moves, add_masks}) add(*made);
    return made;
  }();
  if (!in.plain || in.negate_lo || in.negate_hi) return nullptr;
  if (in.op_sel && !in.mnemonic.starts_with("v_pk_")) return nullptr;
  const auto found = all.find(in.mnemonic);
  return found == all.end() ? nullptr : found->second;
}

void run(Wave& wave, const Instruction& in) {
  const Stretch& stretch = static_cast<const Stretch&>(in);
  const Stretch::Code code = wave.exec() == ~u64{0} ? stretch.all_lanes : stretch.some_lanes;
  code(wave.vector[0], wave.scalar, stretch.constants.data());
}

}  // namespace

bool StretchBuilder::add(const Instruction& instruction) {
#if !defined(__AVX512F__)
  return false;
#endif
  const Emit emit = emitter_of(instruction);
  if (!emit || instructions_.size() == longest) return false;
  HostCode code;
  std::vector<u32> constants;
  Row row(code, constants, 0, false);
  try {
    emit(row, instruction);
  } catch (const NotHere&) {
    return false;
  }
  // A row writes its own bits of a mask: what a later one reads would not be what it was before the stretch.
  if ((read_ & row.written).any() || (written_ & row.read).any() || (row.read & row.written).any())
    return false;
  read_ |= row.read, written_ |= row.written;
  instructions_.push_back(&instruction);
  return true;
}

std::unique_ptr<Stretch> StretchBuilder::finish(CodeMemory& memory) const {
  if (instructions_.empty()) return nullptr;
  auto stretch = std::make_unique<Stretch>();
  Instruction& common = *stretch;
  common = *instructions_.front();
  common.execute = run;
  common.after = instructions_.back()->after;
  common.next = nullptr;
  common.count = static_cast<u8>(instructions_.size());
  for (const bool masked : {false, true}) {
    HostCode code;
    for (unsigned number = 0; number < rows; number++) {
      Row row(code, stretch->constants, number, masked);
      for (const Instruction* instruction : instructions_) {
        emitter_of (*instruction)(row, *instruction);
        row.end_instruction();
      }
      row.end();
    }
    for (unsigned index = 0; index < scalar_registers; index += 2)
      if (written_[index]) code.join_parts(Base::rsi, static_cast<i32>(4 * index));
    code.end();
    const u8* made = memory.put(code.bytes);
    if (!made) return nullptr;
    (masked ? stretch->some_lanes : stretch->all_lanes) = reinterpret_cast<Stretch::Code>(made);
  }
  return stretch;
}

CodeMemory::~CodeMemory() {
  for (u8* block : blocks_) munmap(block, block_bytes);
}

const u8* CodeMemory::put(const std::vector<u8>& code) {
  if (code.size() > block_bytes) return nullptr;
  if (blocks_.empty() || used_ + code.size() > block_bytes) {
    void* block =
        mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
    blocks_.push_back(static_cast<u8*>(block));
    used_ = 0;
  }
  u8* at = blocks_.back() + used_;
  std::memcpy(at, code.data(), code.size());
  used_ += (code.size() + 63) & ~size_t{63};
  return at;
}

}  // namespace amd_gpu
