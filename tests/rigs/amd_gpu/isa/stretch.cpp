#include "stretch.h"

#include <algorithm>
#include <list>
#include <map>

#include "stretch_row.h"

namespace amd_gpu {
namespace {

constexpr unsigned longest = 128;
constexpr u32 most_rounds = 100;  // of a loop, before the other waves may be waited for

void run(Wave& wave, const Instruction& in) {
  const Stretch& stretch = static_cast<const Stretch&>(in);
  for (;; wave.rounds++) {
    wave.reach.refresh();
    const Stretch::Code code = wave.exec() == ~u64{0} ? stretch.all_lanes : stretch.some_lanes;
    try {
      code(wave, wave.scalar, stretch.constants.data());
    } catch (Stop& stop) {
      stop.at = wave.called;
      throw;
    }
    if (!in.steers || wave.pc != in.pc || wave.rounds == most_rounds) return;
    wave.pc = in.after;
  }
}

bool loads_scalars(const Instruction& in) {
  return in.mnemonic.starts_with("s_load_");
}
// The commonest of the scalar unit as the host's own; false of another.
bool emit_scalar(HostCode& code, const Instruction& in) {
  using Logic = HostCode::Logic;
  const auto at = [](unsigned index) { return static_cast<i32>(4 * index); };
  const Operand &to = in.operand(0), &a = in.operand(1), &b = in.operand(2);
  const auto is_pair = [](const Operand& operand) { return operand.is_scalar() && operand.words == 2; };
  if (in.mnemonic == "s_mov_b32" && a.is_constant()) {
    code.store_word(Base::rsi, at(to.index), a.constant->row[0]);
    return true;
  }
  static const std::map<std::string, std::pair<Logic, bool>, std::less<>> logic{
      {"s_and_b64", {Logic::both, false}},
      {"s_andn2_b64", {Logic::both, true}},
      {"s_or_b64", {Logic::either, false}},
      {"s_xor_b64", {Logic::different, false}}};
  const auto found = logic.find(in.mnemonic);
  const bool saves = in.mnemonic == "s_and_saveexec_b64";
  if ((!saves && (found == logic.end() || !is_pair(b))) || !is_pair(a)) return false;
  if (saves) {
    code.load_address(Base::rsi, at(exec_lo));
    code.load_place(Base::rsi, at(a.index));  // before it is written: both may be one
    code.store_address(Base::rsi, at(to.index));
    code.combine_place();
    code.store_address(Base::rsi, at(exec_lo));
  } else {
    const auto [operation, inverts] = found->second;
    code.load_address(Base::rsi, at(b.index));
    if (inverts) code.invert_address();
    code.combine_address(operation, Base::rsi, at(a.index));
    code.store_address(Base::rsi, at(to.index));
  }
  code.store_whether_not_zero(Base::rdi, offsetof(Registers, scc));
  return true;
}

// What an instruction of the scalar unit reads and writes, the condition code left aside.
struct ScalarUse {
  ScalarSet read, written;
};
// False of one that does more than that.
bool find_use(const Instruction& in, ScalarUse& use) {
  const std::string& name = in.mnemonic;
  const bool compares = name.starts_with("s_cmp_") || name.starts_with("s_bitcmp");
  static constexpr const char* plain[] = {
      "s_mov_b", "s_movk_", "s_add",     "s_sub",  "s_mul_", "s_and",  "s_or",    "s_xor_", "s_lsh",  "s_ash",
      "s_bfe",   "s_bfm",   "s_cselect", "s_min_", "s_max_", "s_not_", "s_nand_", "s_nor_", "s_xnor_"};
  const auto begins = [&](const char* start) { return name.starts_with(start); };
  if (in.steers ||
      !(loads_scalars(in) || compares || std::any_of(std::begin(plain), std::end(plain), begins)))
    return false;
  for (unsigned k = 0; k < in.operand_count; k++) {
    const Operand& operand = in.operand(k);
    if (!operand.is_scalar()) continue;
    if (operand.index + operand.words > scalar_registers) return false;
    for (unsigned word = 0; word < operand.words; word++) {
      use.read.set(operand.index + word);
      if (!k && !compares) use.written.set(operand.index + word);
    }
  }
  if (name.find("exec") != name.npos)
    for (const unsigned word : {0, 1}) use.read.set(exec_lo + word), use.written.set(exec_lo + word);
  return true;
}

bool may_end(const Instruction& in) {
  const std::string& name = in.mnemonic;
  return name.starts_with("s_cbranch_") || name == "s_branch" || name == "s_barrier" || name == "s_endpgm";
}

bool may_write_exec(const Instruction& in) {
  const auto is_exec = [](const Operand& operand) {
    return operand.is_scalar() && operand.index <= exec_lo + 1 && operand.index + operand.words > exec_lo;
  };
  return in.mnemonic.starts_with("s_") || in.mnemonic.starts_with("v_cmpx") || is_exec(in.operand(0)) ||
         is_exec(in.operand(1));
}

void emit_once(HostCode& code, const Instruction& in) {
  if (emit_scalar(code, in)) return;
  if (loads_scalars(in)) return load_scalars(code, in);
  call(code, reinterpret_cast<const void*>(in.execute), in);
}

// Gives the rows, for what is to be behind the function's end.
void emit(HostCode& code, const StretchPart& part, std::vector<u32>& constants, bool masked,
          std::list<Row>& made) {
  for (const Instruction* in : part.before) emit_once(code, *in);
  for (unsigned number = 0; number < rows && !part.lanes.empty(); number++) {
    Row& row = made.emplace_back(code, constants, number, masked);
    for (const Instruction* in : part.lanes) {
      emitter_of (*in)(row, *in);
      row.end_instruction();
    }
    row.end();
  }
  for (unsigned index = 0; index < scalar_registers; index += 2)
    if (part.masks_written()[index]) code.join_parts(Base::rsi, static_cast<i32>(4 * index));
  for (const Instruction* in : part.behind) emit_once(code, *in);
}

}  // namespace

// Before all rows or behind them, as the registers allow.
bool StretchPart::add_scalar(const Instruction& instruction) {
  ScalarUse use;
  if (ended_ || !find_use(instruction, use) || (loads_ && loads_scalars(instruction))) return false;
  const bool first = behind.empty() && !stores_ && !use.written[exec_lo] && !use.written[exec_lo + 1] &&
                     (use.written & (read_ | bits_read_ | written_)).none() && (use.read & written_).none();
  (first ? before : behind).push_back(&instruction);
  if (!first) behind_read_ |= use.read, behind_written_ |= use.written;
  return true;
}

bool StretchPart::add_lanes(const Instruction& instruction) {
  const Emit emit = emitter_of(instruction);
  if (!emit || ended_ || stores_ || writes_exec()) return false;
  HostCode code;
  std::vector<u32> constants;
  Row row(code, constants, 0, false);
  try {
    emit(row, instruction);
  } catch (const NotHere&) {
    return false;
  }
  if (row.stores && !lanes.empty()) return false;
  // A row writes its own bits of a mask: what a later one reads would not be what it was before.
  if ((read_ & row.written).any() || (written_ & row.read).any() || (row.read & row.written).any())
    return false;
  if ((behind_written_ & (row.read | row.bits_read | row.written)).any() ||
      (behind_read_ & row.written).any())
    return false;
  read_ |= row.read, bits_read_ |= row.bits_read, written_ |= row.written;
  loads_ |= row.loads, stores_ |= row.stores;
  lanes.push_back(&instruction);
  return true;
}

bool StretchBuilder::add(const Instruction& instruction) {
#if !defined(__AVX512F__)
  return false;
#endif
  if (ended_ || count_ == longest) return false;
  StretchPart& last = parts_.back();
  if (instruction.steers) {
    if (!may_end(instruction)) return false;
    last.end(instruction);
    ended_ = true;
  } else if (last.writes_exec()) {  // and what the rows do is chosen by EXEC at the start
    if (!last.add_scalar(instruction)) return false;
  } else if (!last.add_scalar(instruction) && !last.add_lanes(instruction)) {
    StretchPart& next = parts_.emplace_back();
    if (!next.add_scalar(instruction) && !next.add_lanes(instruction)) {
      next.end(instruction);
      ended_ = may_write_exec(instruction);
    }
  }
  if (!first_) first_ = &instruction;
  last_ = &instruction;
  count_++;
  return true;
}

std::unique_ptr<Stretch> StretchBuilder::finish(CodeMemory& memory) const {
  if (std::all_of(parts_.begin(), parts_.end(), [](const StretchPart& part) { return part.lanes.empty(); }))
    return nullptr;
  auto stretch = std::make_unique<Stretch>();
  Instruction& common = *stretch;
  common = *first_;
  common.execute = run;
  common.after = last_->after;
  common.next = common.then = nullptr;
  common.count = static_cast<u8>(count_);
  common.steers = last_->steers;
  for (const bool masked : {false, true}) {
    HostCode code;
    std::list<Row> made;
    code.begin();
    for (const StretchPart& part : parts_) emit(code, part, stretch->constants, masked, made);
    code.end();
    for (Row& row : made) row.add_detours();
    const u8* kept = memory.put(code.bytes);
    if (!kept) return nullptr;
    (masked ? stretch->some_lanes : stretch->all_lanes) = reinterpret_cast<Stretch::Code>(kept);
  }
  return stretch;
}

}  // namespace amd_gpu
