#include "decode.h"

#include <vector>

#include "disassembler.h"
#include "wave.h"

namespace amd_gpu {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

bool remove_ending(std::string& text, std::string_view ending) {
  if (text.size() <= ending.size() || !text.ends_with(ending)) return false;
  text.resize(text.size() - ending.size());
  return true;
}

// Splits at `separator` outside of brackets; empty pieces are left out.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  size_t start = 0;
  for (size_t k = 0; k <= text.size(); k++) {
    if (k < text.size()) {
      if (text[k] == '[' || text[k] == '(') depth++;
      if (text[k] == ']' || text[k] == ')') depth--;
      if (text[k] != separator || depth) continue;
    }
    const std::string_view piece = trimmed(text.substr(start, k - start));
    if (!piece.empty()) pieces.push_back(piece);
    start = k + 1;
  }
  return pieces;
}

[[noreturn]] void unsupported(const Instruction& instruction, const std::string& what) {
  throw Stop{FaultKind::unsupported, what + ": " + instruction.text};
}

// Operands are separated by commas; modifiers follow the last one after spaces.
void parse_operands(std::string_view text, Instruction& instruction) {
  for (const std::string_view piece : split(text, ',')) {
    bool first = true;
    for (const std::string_view word : split(piece, ' ')) {
      Operand operand;
      if (first && instruction.operand_count < instruction.operands.size() && parse_operand(word, operand)) {
        instruction.operands[instruction.operand_count++] = operand;
      } else if (!word.starts_with("hwreg(") && !word.starts_with("gpr_idx(") &&
                 !parse_modifier(word, instruction)) {
        unsupported(instruction, "modifier " + std::string(word) + " is not known");
      }
      first = false;
    }
  }
}

// Integers may only be clamped where a line of the table says how.
void choose(Instruction& instruction, const Entry& entry) {
  instruction.execute = entry.execute;
  instruction.detail = entry.detail;
  instruction.idle = entry.idle;
  instruction.steers = entry.steers;
  if (!instruction.clamp || entry.clamps) return;
  if (!entry.clamped) unsupported(instruction, "clamp is not known here");
  instruction.execute = entry.clamped;
}

bool is_plain(const Instruction& instruction) {
  return !instruction.dpp && !instruction.sdwa && !instruction.clamp && !instruction.output_scale;
}

}  // namespace

Instruction decode(Target target, const uint8_t* bytes, size_t available, uint64_t pc) {
  Disassembled found = disassemble(target, bytes, available, pc);
  Instruction instruction;
  std::memcpy(instruction.words.data(), bytes, std::min<size_t>(available, sizeof instruction.words));
  if (!found.size_bytes) {
    char word[32];
    std::snprintf(word, sizeof word, "0x%08x", instruction.words[0]);
    throw Stop{FaultKind::illegal, std::string(word) + " is no instruction of " + name(target)};
  }
  instruction.size_bytes = static_cast<u8>(found.size_bytes);
  instruction.pc = pc;
  instruction.after = pc + found.size_bytes;
  const std::string_view text = trimmed(std::string_view(found.text).substr(0, found.text.find("//")));
  instruction.text = text;
  const size_t end = text.find(' ');
  instruction.mnemonic = text.substr(0, end);
  if (remove_ending(instruction.mnemonic, "_sdwa")) {
    instruction.sdwa = true;
  } else if (remove_ending(instruction.mnemonic, "_dpp")) {
    instruction.dpp = true;
  } else {
    remove_ending(instruction.mnemonic, "_e64") || remove_ending(instruction.mnemonic, "_e32");
  }
  // Packed instructions take the upper halves for their upper result unless the text says otherwise; the
  // bytes of scales are chosen in the same way.
  if (instruction.mnemonic.starts_with("v_pk_") || instruction.mnemonic.starts_with("v_mfma_scale"))
    instruction.op_sel_hi = 7;

  const Entry* entry = Table::of(target).find(instruction.mnemonic);
  if (!entry) unsupported(instruction, "instruction is not known");
  if (!entry->words_only && end != text.npos) parse_operands(text.substr(end + 1), instruction);
  choose(instruction, *entry);
  instruction.plain = is_plain(instruction);
  return instruction;
}

}  // namespace amd_gpu
