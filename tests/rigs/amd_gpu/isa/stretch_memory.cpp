// Loads and stores of words in stretches. The words of a row of lanes lie close to each other, nearly always,
// and what else there is the instruction itself does, for that row.
#include "stretch_row.h"

namespace amd_gpu {
namespace {

constexpr u32 row_bytes = 4 * sixteen;

// Jumps where the lanes' distances from the lowest one are not words of a row behind it, or `others` has a
// bit.
size_t unless_near(Row& row, u8 distance, unsigned others) {
  row.code.emit(test, first_part, distance, row.number(~(row_bytes - 4)), no_mask);
  row.code.test_masks(first_part, others);
  return row.code.jump_if(HostCode::If::not_zero);
}

// In bytes behind the first of its row.
u32 own_place(unsigned lane) {
  return lane % sixteen * 4;
}

// rcx = where the host has what rax is the address of; jumps where no mapping that was used before has so
// many bytes there.
size_t unless_mapped(HostCode& code, u8 bytes) {
  std::vector<size_t> found;
  for (size_t k = 0; k < Reach::mappings; k++) {
    const size_t at = offsetof(Registers, reach) + Reach::offset_of_mappings() + k * sizeof(Mapping);
    const auto field = [&](size_t offset) { return static_cast<i32>(at + offset); };
    const auto next =
        code.find_in(Base::rdi, field(offsetof(Mapping, device_va)), field(offsetof(Mapping, size_bytes)),
                     field(offsetof(Mapping, host)), bytes);
    found.push_back(code.jump());
    for (const size_t jump : next) code.land(jump);
  }
  const size_t none = code.jump();
  for (const size_t jump : found) code.land(jump);
  return none;
}

// Words of LDS, as many bytes behind the lanes' addresses as `offsets` say.
void read_lds(Row& row, const Instruction& in, const std::vector<u32>& offsets) {
  HostCode& code = row.code;
  const u8 from = row.words(in.operand(1)).number, sum = row.fresh(), distance = row.fresh();
  std::vector<u8> to;
  for (size_t k = 0; k < offsets.size(); k++) to.push_back(row.fresh());
  std::vector<size_t> far, outside, done;
  if (!row.masked) {
    code.spread_lowest(sum, from);
    code.emit(subtract, distance, from, {.number = sum});
    far.push_back(unless_near(row, distance, first_part));
    code.low_address(from);
    code.load_place(Base::rdi, offsetof(Registers, lds));
    code.emit(shift_right, distance, distance, row.number(2));
    for (size_t k = 0; k < offsets.size(); k++) {
      far.push_back(code.offset_unless_below(offsets[k], Base::rdi, offsetof(Registers, lds_rows_end)));
      code.pick_words(to[k], distance, true);
    }
    done.push_back(code.jump());
    for (const size_t jump : far) code.land(jump);
  }
  code.load_place(Base::rdi, offsetof(Registers, lds));
  for (size_t k = 0; k < offsets.size(); k++) {
    code.emit(add_words, sum, from, row.number(offsets[k]));
    code.emit(compare_unsigned, first_part, sum, {true, 0, Base::rdi, offsetof(Registers, lds_words_end)},
              not_less, row.masked ? active : no_mask);
    code.test_masks(first_part, first_part);
    outside.push_back(code.jump_if(HostCode::If::not_zero));
    if (row.masked)
      code.or_masks(second_part, active, active);
    else
      code.full_mask(second_part);
    code.gather_words(to[k], sum, second_part);
  }
  for (const size_t jump : done) code.land(jump);
  row.loads = true;
  row.leave(in, outside, to);
  for (unsigned k = 0; k < to.size(); k++) row.define(in.operand(0), k, to[k]);
}

}  // namespace

// Of the scalar unit: where it is nothing but words at a pair of registers and a number.
void load_scalars(HostCode& code, const Instruction& in) {
  const auto at = [](const Operand& operand) { return static_cast<i32>(4 * operand.index); };
  const Operand &to = in.operand(0), &base = in.operand(1);
  std::vector<size_t> cases;
  const bool has_number = in.operand_count == 3 && in.operand(2).is_constant();
  if (base.is_scalar() && (in.operand_count == 2 || has_number)) {
    code.load_address(Base::rsi, at(base));
    if (in.offset) code.add_to_address(in.offset);
    if (has_number) code.add_to_address(static_cast<i32>(in.operand(2).constant->row[0]));
    code.clear_low_bits_of_address();
    cases.push_back(unless_mapped(code, static_cast<u8>(4 * to.words)));
    code.copy(Base::rsi, at(to), static_cast<u8>(4 * to.words));
    cases.push_back(code.jump());
    code.land(cases.front());
  }
  call(code, reinterpret_cast<const void*>(in.execute), in);
  if (!cases.empty()) code.land(cases.back());
}

// Lanes' addresses, as the operands have them: `low` and `high` in registers, or behind a scalar base.
struct Addresses {
  Addresses(Row& row, const Operand& operand, const Operand& last)
      : base(last.is_scalar() ? &last : nullptr) {
    if (!operand.is_vector()) throw NotHere{};
    low = row.words(operand).number, high = base ? low : row.words(operand, 1).number;
    lowest = row.fresh(), distance = row.fresh();
  }
  // rcx = where the host has the lowest lane's word, and a row from there; jumps where some lane is not
  // active, or `far` finds one that is too far from it.
  template <class Far>
  void find(Row& row, const Instruction& in, std::vector<size_t>& cases, Far far) const {
    HostCode& code = row.code;
    if (row.masked) {
      code.test_masks(active, active);
      cases.push_back(code.jump_if(HostCode::If::not_below));  // some lanes of the row, or none
    }
    if (base) {
      code.empty_mask(second_part);
    } else {
      code.spread_lowest(lowest, high);
      code.emit(compare_unsigned, second_part, high, {.number = lowest}, not_equal, no_mask);
    }
    code.spread_lowest(lowest, low);
    code.emit(subtract, distance, low, {.number = lowest});
    cases.push_back(far(row, distance, second_part));
    code.low_address(low);
    code.compare_low_address(~u32{0} - row_bytes);
    cases.push_back(code.jump_if(HostCode::If::above));
    if (base) {
      const Place from = row.words(*base);
      row.words(*base, 1);
      code.add_to_address(from.base, from.behind);
    } else {
      code.high_address(high);
    }
    if (in.offset) code.add_to_address(in.offset);
    row.find_mapping(in, row_bytes);
  }

  const Operand* base;
  u8 low, high, lowest, distance;
};

void load_from_memory(Row& row, const Instruction& in) {
  HostCode& code = row.code;
  const Addresses addresses(row, in.operand(1), in.operand(in.operand_count > 2 ? 2 : 1));
  const u8 to = row.fresh();
  std::vector<size_t> cases;
  addresses.find(row, in, cases, unless_near);
  // Rows lie side by side mostly, and the host goes through a whole one before the next is asked for.
  if (row.is_first())
    for (u32 behind = row_bytes; behind < 2 * rows * row_bytes; behind += row_bytes) code.prefetch(behind);
  code.emit(shift_right, addresses.distance, addresses.distance, row.number(2));
  code.pick_words(to, addresses.distance);
  row.loads = true;
  row.leave(in, std::move(cases), {to});
  row.define(in.operand(0), to);
}

// Of lanes side by side, in order.
void store_to_memory(Row& row, const Instruction& in) {
  HostCode& code = row.code;
  const Addresses addresses(row, in.operand(0), in.operand(in.operand_count - 1u));
  if (!in.operand(1).is_vector()) throw NotHere{};
  const u8 from = row.words(in.operand(1)).number;
  std::vector<size_t> cases;
  addresses.find(row, in, cases, [](Row& row, u8 distance, unsigned others) {
    row.code.emit(compare_unsigned, first_part, distance, {.number = row.numbers(own_place)}, not_equal,
                  no_mask);
    row.code.test_masks(first_part, others);
    return row.code.jump_if(HostCode::If::not_zero);
  });
  cases.push_back(code.jump_unless_r9(offsetof(Mapping, writable)));
  code.store(Base::rcx, 0, from);
  if (row.is_first())  // what the next waves store, who would wait for it with all other stores
    for (u32 behind = rows * row_bytes; behind < 3 * rows * row_bytes; behind += row_bytes)
      code.prefetch_for_writing(behind);
  row.stores = true;
  row.leave(in, std::move(cases), {});
}

void read_two_words_of_lds(Row& row, const Instruction& in) {
  read_lds(row, in, {4u * in.offset0, 4u * in.offset1});
}
template <unsigned words>
void read_words_of_lds(Row& row, const Instruction& in) {
  std::vector<u32> offsets;
  for (unsigned k = 0; k < words; k++) offsets.push_back(static_cast<u16>(in.offset) + 4 * k);
  read_lds(row, in, offsets);
}
template void read_words_of_lds<1>(Row&, const Instruction&);
template void read_words_of_lds<2>(Row&, const Instruction&);
template void read_words_of_lds<3>(Row&, const Instruction&);
template void read_words_of_lds<4>(Row&, const Instruction&);

}  // namespace amd_gpu
