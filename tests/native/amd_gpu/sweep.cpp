#include "sweep.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "isa/decode.h"
#include "isa/disassembler.h"
#include "isa/wave.h"

namespace amd_gpu {
namespace {

// An encoding: the fixed bits of an instruction's first word, and where its opcode is in it. Some words are
// of two encodings, and are then tried twice. Source: AMD Instinct MI300 ISA, "Microcode Formats".
struct Format {
  u32 fixed;
  unsigned shift, bits;
};
constexpr Format formats[] = {
    {0xbe800000, 8, 8},    // SOP1
    {0xbf000000, 16, 7},   // SOPC
    {0xbf800000, 16, 7},   // SOPP
    {0xb0000000, 23, 5},   // SOPK
    {0x80000000, 23, 7},   // SOP2
    {0xc0000000, 18, 8},   // SMEM
    {0x7e000000, 9, 8},    // VOP1
    {0x7c000000, 17, 8},   // VOPC
    {0x00000000, 25, 6},   // VOP2
    {0xd0000000, 16, 10},  // VOP3, VOP3P
    {0xd8000000, 17, 8},   // DS
    {0xdc000000, 18, 7},   // FLAT
    {0xdc004000, 18, 7},   // SCRATCH
    {0xdc008000, 18, 7},   // GLOBAL
    {0xe0000000, 18, 7},   // MUBUF
    {0xe8000000, 15, 4},   // MTBUF
    {0xf0000000, 18, 7},   // MIMG
};

// Operands are tried at random: each instruction takes some kinds of registers and not others, and wide ones
// begin at even numbers.
constexpr unsigned tries = 256;

// What libLLVM's disassembler lets through, and its assembler does not: registers of other chips, and what it
// comments.
bool is_doubtful(const std::string& text) {
  for (const char* part :
       {"/*", ";", "null", "src_lds_direct", "src_pops_exiting_wave_id", "src_flat_scratch_base"}) {
    if (text.find(part) != text.npos) return true;
  }
  return false;
}

std::string plain_name(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == text.npos) return "";
  std::string name = text.substr(start, text.find_first_of(" \t", start) - start);
  for (const char* ending : {"_e32", "_e64", "_sdwa", "_dpp"}) {
    if (name.ends_with(ending)) name.resize(name.size() - std::strlen(ending));
  }
  return name;
}

Taken taken_by(Target target, const u8* bytes, size_t size) {
  try {
    decode(target, bytes, size, 0);
    return Taken::executed;
  } catch (const Stop& stop) {
    return stop.text.starts_with("instruction is not known") ? Taken::refused : Taken::partly;
  }
}

// A source of VOP3: a vector register, a scalar one, or a constant. libLLVM crashes over some that are none.
u32 any_source(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return random() % 100;
    case 1:
      return 128 + random() % 65;
    default:
      return 256 + random() % 256;
  }
}

// Words of an instruction with this opcode. Three of four have registers with even numbers.
std::array<u32, 4> words_of(const Format& format, u32 opcode, unsigned number, std::mt19937& random) {
  std::array<u32, 4> words;
  for (u32& word : words) word = static_cast<u32>(random());
  const bool even = number & 3;
  const u32 encoding = format.fixed >> 26;
  const bool is_vop3 = encoding == 0x34, is_matrix = is_vop3 && (opcode >= 0x3c0 || opcode - 0x3ac < 3);
  if (even) words[0] &= ~0x00030201u, words[1] &= ~0x01010101u;
  if (is_vop3) {
    words[0] &= ~0xc0u;
    u32 sources[3];
    for (u32& source : sources) source = is_matrix || number & 1 ? 256 + random() % 200 : any_source(random);
    for (u32& source : sources) source &= even ? ~1u : ~0u;
    words[1] = sources[0] | sources[1] << 9 | sources[2] << 18 | (number & 4 ? words[1] & 0xf8000000 : 0);
    if (number & 8) words[0] &= 0xffff00ff;
    if (opcode == 0x3ac) {  // the scales of an instruction that follows
      words[1] &= 0x0003ffff;
      words[2] = 0xd3ad0800 + (number & 2 ? 0x10000 : 0);
      words[3] = (256 + 32) | (256 + 64) << 9 | (256 + 96) << 18;
      if (number & 32) words[0] = 0x4000, words[1] |= 0x18000000, words[2] = 0xbf800000;  // alone: s_nop
    }
  } else if (number % 16 == 5 || number % 16 == 10) {  // VOP1, VOP2 and VOPC: SDWA, DPP
    words[0] = (words[0] & ~0x1ffu) | (number % 16 == 5 ? 0xf9 : 0xfa);
  } else if (number & 16) {
    // DS: with no data, and with no result either.
    words[1] &= encoding != 0x36 ? 0x0fffffff : number & 32 ? number & 64 ? 0 : 0xff : 0xff0000ff;
  }
  // Between an encoding's bits and the opcode SOP1 and VOP1 have a destination; FLAT's segment is behind it.
  const u32 mask = ((1u << format.bits) - 1) << format.shift;
  u32 kept = ~0u << std::min(31u, format.shift + format.bits);
  if (format.fixed == 0xbe800000) kept = 0xff800000;
  if (encoding == 0x1f) kept = format.fixed == 0x7e000000 ? 0xfe000000 : kept;
  if (encoding == 0x37) kept |= 0xc000;
  words[0] = (words[0] & ~(kept | mask)) | format.fixed | opcode << format.shift;
  // libLLVM crashes where SDWA selects the part with number 7, or a buffer's offset is in a register, and
  // they are none.
  if (!is_vop3 && (words[0] & 0x1ff) == 0xf9) words[1] &= ~0x04041400u;
  if (encoding >= 0x38) words[1] &= 0x3fffffff;
  if (format.fixed == 0xdc000000) words[0] &= ~0x1000u;  // an offset of FLAT has no sign
  return words;
}

}  // namespace

std::map<std::string, Found> sweep(Target target) {
  std::map<std::string, Found> found;
  std::mt19937 random(1);
  for (const Format& format : formats) {
    for (u32 opcode = 0; opcode < 1u << format.bits; opcode++) {
      for (unsigned number = 0; number < tries; number++) {
        std::array<u32, 4> words = words_of(format, opcode, number, random);
        u8 bytes[sizeof words];
        std::memcpy(bytes, words.data(), sizeof bytes);
        const Disassembled text = disassemble(target, bytes, sizeof bytes, 0);
        if (!text.size_bytes || is_doubtful(text.text)) continue;
        const std::string name = plain_name(text.text);
        const auto known = found.find(name);
        if (known != found.end() && known->second.taken != Taken::executed) continue;
        const Taken taken = taken_by(target, bytes, sizeof bytes);
        if (known == found.end() || taken != Taken::executed)
          found[name] = {taken, text.text, {bytes, bytes + text.size_bytes}};
      }
    }
  }
  return found;
}

}  // namespace amd_gpu
