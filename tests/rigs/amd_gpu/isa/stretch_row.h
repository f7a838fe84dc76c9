// One row of sixteen lanes on its way through a stretch: which of the host's registers has which of the
// wave's, and the code for it. Emitters, one for each instruction, are functions of it.
#ifndef KERNCAP_AMD_GPU_ISA_STRETCH_ROW_H
#define KERNCAP_AMD_GPU_ISA_STRETCH_ROW_H

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "host_code.h"
#include "lanes.h"
#include "stretch.h"

namespace amd_gpu {

constexpr HostOp integer(u8 code, Map map = Map::m0F) {
  return {Prefix::p66, map, code};
}
constexpr HostOp move{Prefix::pF3, Map::m0F, 0x6f},
    add_words = integer(0xfe), subtract = integer(0xfa), multiply = integer(0x40, Map::m0F38),
    both = integer(0xdb), test = integer(0x27, Map::m0F38), either = integer(0xeb), different = integer(0xef),
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
constexpr u8 equal = 0, less = 1, unordered = 3, not_equal = 4, not_less = 5, greater_or_equal = 0x0d,
             greater = 0x0e;  // of comparisons
// Masks: two for results in turns, one that was loaded, two for what lies between, and EXEC.
constexpr unsigned results[] = {1, 2}, loaded = 3, first_part = 4, second_part = 5, active = 7;

struct NotHere {};  // an operand that only the instruction's own file knows

// Emits one row of a stretch. Vector registers are in the host's from their first use on, and go back where
// that is needed for another, and at the end.
class Row {
 public:
  Row(HostCode& code, std::vector<u32>& constants, unsigned number, bool masked)
      : code(code), masked(masked), constants_(constants), number_(number) {
    host_of_.fill(none);
    if (masked) code.load_mask(active, Base::rsi, mask_at(exec_lo));
  }

  HostCode& code;
  const bool masked;
  // Scalar registers of which all lanes read the same, each reads its bit, and writes it.
  ScalarSet read, bits_read, written;
  bool loads = false, stores = false;

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
  // Of each lane its own number.
  u8 numbers(u32 (*of_lane)(unsigned)) {
    const u8 to = fresh();
    code.load(to, Base::rdx, static_cast<i32>(4 * constants_.size()));
    for (unsigned l = 0; l < sixteen; l++) constants_.push_back(of_lane(number_ * sixteen + l));
    return to;
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
    bits_read.set(index), bits_read.set(index + 1u);
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
    if (masked) code.and_masks(results[known_result_], results[known_result_], active);
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

  // The registers for `results` of this instruction, where a case is met that only its own file knows: the
  // jumps of `cases` lead there, and it comes back here. Nothing may be made a register's between the first
  // of them and this. `mask`: it makes one too, which is fresh_mask() here.
  void leave(const Instruction& in, std::vector<size_t> cases, std::vector<u8> results,
             const Operand* mask = nullptr) {
    detours_.push_back({&in, std::move(cases), code.bytes.size(), std::move(results), mask, hosts_,
                        known_mask_, known_result_, std::exchange(search_, {})});
  }

  // rcx = where the host has what rax is the address of: `bytes` of the mapping that the instruction reached
  // last. Else another one is looked for behind the function's end, and if none has them it is a case of the
  // leave() that has to follow.
  void find_mapping(const Instruction& in, u8 bytes);

  bool is_first() const { return number_ == 0; }
  void end_instruction() { pinned_ = 0; }
  void end() {
    for (u8 host = 0; host < host_registers; host++) release(host);
    store_mask();
  }
  // Behind the end of the function.
  void add_detours();

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
  i32 home_of(const Host& host) const { return vector_at(static_cast<unsigned>(host.vector)); }
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
    if (old.changed) code.store(Base::rdi, home_of(old), host, masked ? active : no_mask);
    if (old.vector >= 0) host_of_[static_cast<size_t>(old.vector)] = none;
    old = {};
  }

  struct Search {
    std::array<size_t, 2> from{};
    size_t back = 0;
    i32 last_reached = 0;
    u8 bytes = 0;  // none: there is no search
  };
  struct Detour {
    const Instruction* in;
    std::vector<size_t> cases;
    size_t back;
    std::vector<u8> results;
    const Operand* mask;
    std::array<Host, host_registers> hosts;
    u16 known_mask;
    bool known_result;
    Search search;
  };

  std::vector<u32>& constants_;
  void emit_search(const Search& search);

  std::vector<Detour> detours_;
  Search search_;  // of the leave() that comes next
  const unsigned number_;
  std::array<u8, 512> host_of_;
  std::array<Host, host_registers> hosts_{};
  u32 pinned_ = 0, clock_ = 0;
  u16 known_mask_ = no_register;  // the scalar register of the last result
  bool known_result_ = false;
};

using Emit = void (*)(Row&, const Instruction&);

// Null of an instruction that only its own file knows.
Emit emitter_of(const Instruction& in);

// A call of a function of the wave, the instruction and a number.
void call(HostCode& code, const void* function, const Instruction& in, u32 number = 0);

// Loads and stores of words: stretch_memory.cpp.
void load_scalars(HostCode& code, const Instruction& in);
void load_from_memory(Row& row, const Instruction& in);
void store_to_memory(Row& row, const Instruction& in);
template <unsigned words>
void read_words_of_lds(Row& row, const Instruction& in);
void read_two_words_of_lds(Row& row, const Instruction& in);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_STRETCH_ROW_H
