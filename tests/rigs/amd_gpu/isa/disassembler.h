// Text of an instruction, from libLLVM's C interface (opened when it is first needed).
#ifndef KERNCAP_AMD_GPU_ISA_DISASSEMBLER_H
#define KERNCAP_AMD_GPU_ISA_DISASSEMBLER_H

#include <string>

#include "../gpu.h"

namespace amd_gpu {

struct Disassembled {
  size_t size_bytes = 0;  // 0: no instruction of this target
  std::string text;
};

// Throws Stop where there is no libLLVM, or it does not know the target. Safe from several threads.
Disassembled disassemble(Target target, const uint8_t* bytes, size_t available, uint64_t pc);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_DISASSEMBLER_H
