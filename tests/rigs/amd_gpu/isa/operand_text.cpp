// Operands and modifiers as LLVM prints them.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "decode.h"

namespace amd_gpu {
namespace {

struct NamedRegister {
  std::string_view name;
  u16 index;
  u8 words;
};

constexpr NamedRegister named[] = {
    {"vcc", vcc_lo, 2},
    {"vcc_lo", vcc_lo, 1},
    {"vcc_hi", vcc_lo + 1, 1},
    {"exec", exec_lo, 2},
    {"exec_lo", exec_lo, 1},
    {"exec_hi", exec_lo + 1, 1},
    {"m0", m0, 1},
    {"flat_scratch", flat_scratch_lo, 2},
    {"flat_scratch_lo", flat_scratch_lo, 1},
    {"flat_scratch_hi", flat_scratch_lo + 1, 1},
    {"xnack_mask", xnack_mask_lo, 2},
    {"xnack_mask_lo", xnack_mask_lo, 1},
    {"xnack_mask_hi", xnack_mask_lo + 1, 1},
    {"scc", scc, 1},
    {"src_scc", scc, 1},
    {"src_vccz", vccz, 1},
    {"src_execz", execz, 1},
    {"src_shared_base", shared_base, 2},
    {"src_shared_limit", shared_limit, 2},
    {"src_private_base", private_base, 2},
    {"src_private_limit", private_limit, 2},
};

bool parse_number(std::string_view text, i64& value) {
  const std::string owned(text);
  char* end = nullptr;
  value = static_cast<i64>(std::strtoll(owned.c_str(), &end, 0));
  return !owned.empty() && !*end;
}

// "3", "[4]" or "[4:7]" behind a register file's letter.
bool parse_range(std::string_view text, unsigned& first, unsigned& count) {
  const bool bracket = text.starts_with('[');
  if (bracket) {
    if (!text.ends_with(']')) return false;
    text = text.substr(1, text.size() - 2);
  }
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc()) return false;
  count = 1;
  if (at == end) return true;
  unsigned last = 0;
  if (!bracket || *at != ':') return false;
  auto [after, second_error] = std::from_chars(at + 1, end, last);
  count = last - first + 1;
  return second_error == std::errc() && after == end && last >= first;
}

bool parse_register(std::string_view text, Operand& operand) {
  for (const NamedRegister& candidate : named) {
    if (text != candidate.name) continue;
    operand.kind = Operand::Kind::scalar;
    operand.index = candidate.index;
    operand.words = candidate.words;
    return true;
  }
  struct File {
    std::string_view prefix;
    Operand::Kind kind;
    unsigned base;
  };
  constexpr File files[] = {{"ttmp", Operand::Kind::scalar, ttmp0},
                            {"s", Operand::Kind::scalar, 0},
                            {"v", Operand::Kind::vector, 0},
                            {"a", Operand::Kind::vector, 256}};
  for (const File& file : files) {
    unsigned first = 0, count = 0;
    if (!text.starts_with(file.prefix) || !parse_range(text.substr(file.prefix.size()), first, count))
      continue;
    operand.kind = file.kind;
    operand.index = static_cast<u16>(file.base + first);
    operand.words = static_cast<u8>(count);
    return true;
  }
  return false;
}

// The inside of `name(...)`, where the text is that.
bool unwrap(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name) || !text.ends_with(')')) return false;
  text = text.substr(name.size(), text.size() - name.size() - 1);
  return true;
}

// Kept for good: programs use few.
const Constant& constant_of(i64 integer, f64 real, u32 word) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::tuple<i64, u64, u32>, Constant>;
  const std::lock_guard<std::mutex> guard(mutex);
  const auto [found, is_new] = known.try_emplace({integer, as<u64>(real), word});
  Constant& constant = found->second;
  if (is_new) {
    constant.integer = integer;
    constant.real = real;
    std::fill_n(constant.row, lanes, word);
  }
  return constant;
}

// libLLVM 22 says lit(...) of a literal that could have been an inline constant.
bool parse_constant(std::string_view text, Operand& operand) {
  operand.literal = unwrap(text, "lit(") || text.starts_with("0x");
  if (!operand.literal && text.find('.') != text.npos) {
    const std::string owned(text);
    char* end = nullptr;
    f64 value = std::strtod(owned.c_str(), &end);
    // 1/(2*pi), printed with the digits of the operand's type.
    if (owned.starts_with("0.159154")) value = 0.15915494309189532;
    operand.kind = Operand::Kind::real;
    operand.constant = &constant_of(0, value, as<u32>(static_cast<f32>(value)));
    return !*end;
  }
  i64 value = 0;
  if (!parse_number(text, value)) return false;
  operand.kind = Operand::Kind::integer;
  operand.constant = &constant_of(value, 0, static_cast<u32>(value));
  return true;
}

bool parse_part(std::string_view text, Part& part) {
  constexpr std::string_view parts[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  for (unsigned k = 0; k < std::size(parts); k++) {
    if (text != parts[k]) continue;
    part = static_cast<Part>(k);
    return true;
  }
  return false;
}

bool parse_unused(std::string_view text, Instruction& instruction) {
  if (text == "UNUSED_PAD")
    instruction.unused = Instruction::Unused::pad;
  else if (text == "UNUSED_SEXT")
    instruction.unused = Instruction::Unused::sign_extend;
  else if (text == "UNUSED_PRESERVE")
    instruction.unused = Instruction::Unused::preserve;
  else
    return false;
  return true;
}

// "[1,0,1]" to bits 0, 1, 2.
u8 parse_bits(std::string_view text) {
  unsigned bits = 0, position = 0;
  for (const char c : text) {
    if (c == '1') bits |= 1u << position;
    if (c == '0' || c == '1') position++;
  }
  return static_cast<u8>(bits);
}

bool parse_quad(std::string_view text, Instruction& instruction) {
  unsigned position = 0;
  for (const char c : text) {
    if (c < '0' || c > '3') continue;
    if (position == 4) return false;
    instruction.quad[position++] = static_cast<u8>(c - '0');
  }
  instruction.move = Move::quad_perm;
  return position == 4;
}

// Modifiers without a value. Those of caches and ordering change nothing here.
bool parse_flag(std::string_view text, Instruction& instruction) {
  if (text == "clamp")
    instruction.clamp = true;
  else if (text == "glc" || text == "sc0")
    instruction.returns = true;
  else if (text == "offen")
    instruction.offset_enabled = true;
  else if (text == "idxen")
    instruction.index_enabled = true;
  else if (text == "lds")
    instruction.to_lds = true;
  else if (text == "row_mirror")
    instruction.move = Move::row_mirror;
  else if (text == "row_half_mirror")
    instruction.move = Move::row_half_mirror;
  else if (text == "gds")  // other memory, which is not here
    return instruction.mnemonic.starts_with("ds_gws_");
  else
    return text == "slc" || text == "scc" || text == "sc1" || text == "nt" || text == "off";
  return true;
}

bool parse_move(std::string_view key, i64 value, Instruction& instruction) {
  struct Name {
    std::string_view key;
    Move move;
  };
  constexpr Name names[] = {{"row_shl", Move::row_shl},   {"row_shr", Move::row_shr},
                            {"row_ror", Move::row_ror},   {"wave_shl", Move::wave_shl},
                            {"wave_rol", Move::wave_rol}, {"wave_shr", Move::wave_shr},
                            {"wave_ror", Move::wave_ror}, {"row_newbcast", Move::row_newbcast}};
  instruction.move_by = static_cast<u8>(value);
  for (const Name& candidate : names) {
    if (key != candidate.key) continue;
    instruction.move = candidate.move;
    return true;
  }
  if (key != "row_bcast") return false;
  instruction.move = value == 15 ? Move::row_bcast15 : Move::row_bcast31;
  return true;
}

bool parse_numbered(std::string_view key, i64 value, Instruction& instruction) {
  if (key == "offset")
    instruction.offset = static_cast<i32>(value);
  else if (key == "offset0")
    instruction.offset0 = static_cast<u16>(value);
  else if (key == "offset1")
    instruction.offset1 = static_cast<u16>(value);
  else if (key == "mul")
    instruction.output_scale = value == 2 ? 1 : 2;
  else if (key == "div")
    instruction.output_scale = -1;
  else if (key == "row_mask")
    instruction.row_mask = static_cast<u8>(value);
  else if (key == "bank_mask")
    instruction.bank_mask = static_cast<u8>(value);
  else if (key == "bound_ctrl")
    instruction.bound_ctrl = true;  // printed, with :0 or :1, only where it is set
  else if (key == "cbsz")
    instruction.cbsz = static_cast<u8>(value);
  else if (key == "abid")
    instruction.abid = static_cast<u8>(value);
  else if (key == "blgp")
    instruction.blgp = static_cast<u8>(value);
  else if (key == "bitop3")
    instruction.truth_table = static_cast<u8>(value);
  else if (key == "fi")
    instruction.fetch_inactive = value != 0;
  else
    return parse_move(key, value, instruction);
  return true;
}

}  // namespace

bool parse_operand(std::string_view text, Operand& operand) {
  if (text == "off") {
    operand.kind = Operand::Kind::off;
    return true;
  }
  operand.sign_extend = unwrap(text, "sext(");
  if (unwrap(text, "neg(")) operand.negate = true;
  if (unwrap(text, "abs(")) operand.absolute = true;
  if (text.size() > 1 && text[0] == '-' && !std::isdigit(static_cast<unsigned char>(text[1]))) {
    operand.negate = true;
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text.front() == '|' && text.back() == '|') {
    operand.absolute = true;
    text = text.substr(1, text.size() - 2);
  }
  if (parse_register(text, operand)) return true;
  const bool number =
      text.starts_with("lit(") ||
      (!text.empty() && (text[0] == '-' || std::isdigit(static_cast<unsigned char>(text[0]))));
  return number && parse_constant(text, operand);
}

bool parse_modifier(std::string_view text, Instruction& instruction) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return parse_flag(text, instruction);
  const std::string_view key = text.substr(0, colon), value = text.substr(colon + 1);
  if (key == "op_sel")
    instruction.op_sel = parse_bits(value);
  else if (key == "op_sel_hi")
    instruction.op_sel_hi = parse_bits(value);
  else if (key == "neg_lo")
    instruction.negate_lo = parse_bits(value);
  else if (key == "neg_hi")
    instruction.negate_hi = parse_bits(value);
  // The f64 matrix instructions print the bits of blgp so.
  else if (key == "neg")
    instruction.blgp = parse_bits(value);
  // ds_swizzle reads its pattern from the encoding.
  else if (key == "offset" && value.starts_with("swizzle("))
    return true;
  else if (key == "quad_perm")
    return parse_quad(value, instruction);
  else if (key == "dst_sel")
    return parse_part(value, instruction.destination);
  else if (key == "src0_sel")
    return parse_part(value, instruction.source0);
  else if (key == "src1_sel")
    return parse_part(value, instruction.source1);
  else if (key == "dst_unused")
    return parse_unused(value, instruction);
  else {
    i64 number = 0;
    return parse_number(value, number) && parse_numbered(key, number, instruction);
  }
  return true;
}

}  // namespace amd_gpu
