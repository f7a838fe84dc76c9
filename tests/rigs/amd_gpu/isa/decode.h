// From a disassembler's text to an Instruction.
#ifndef KERNCAP_AMD_GPU_ISA_DECODE_H
#define KERNCAP_AMD_GPU_ISA_DECODE_H

#include "../gpu.h"
#include "instruction.h"

namespace amd_gpu {

// Throws Stop (illegal, unsupported) for what is no instruction or is not known; the text names it.
Instruction decode(Target target, const uint8_t* bytes, size_t available, uint64_t pc);

// An operand such as v[0:1], -|s2|, sext(v3), 0x3f000000, 1.0, vcc; false where the text is none.
bool parse_operand(std::string_view text, Operand& operand);

// A modifier such as row_shr:1, offset:16, glc; false where it is not known.
bool parse_modifier(std::string_view text, Instruction& instruction);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_DECODE_H
