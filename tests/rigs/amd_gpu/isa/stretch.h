// Stretches: instructions one behind the other that work lane by lane, as machine code of the host. A row of
// sixteen lanes goes through all of them in the host's registers before the next one does. What an
// instruction does is still said in its own file; here are the common ones, again, and tests hold both to
// the same results. Where the host has no AVX-512 there are none.
#ifndef KERNCAP_AMD_GPU_ISA_STRETCH_H
#define KERNCAP_AMD_GPU_ISA_STRETCH_H

#include <bitset>
#include <memory>
#include <vector>

#include "instruction.h"

namespace amd_gpu {

// Runs as one instruction, where execution comes to the first of them.
struct Stretch : Instruction {
  using Code = void (*)(u32* vectors, u32* scalars, const u32* constants);
  Code all_lanes = nullptr, some_lanes = nullptr;
  std::vector<u32> constants;
};

// Memory for machine code that lives as long as this.
class CodeMemory {
 public:
  CodeMemory() {}
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  // Null where the system gives none that may be executed.
  const u8* put(const std::vector<u8>& code);

 private:
  std::vector<u8*> blocks_;
  size_t used_ = 0;  // of the last one
};

class StretchBuilder {
 public:
  // False where the instruction can't be part of it.
  bool add(const Instruction& instruction);
  // Null where nothing was added, or there is no memory for it.
  std::unique_ptr<Stretch> finish(CodeMemory& memory) const;

 private:
  std::vector<const Instruction*> instructions_;
  // Scalar registers that are read for all lanes, and of which each row writes its own bits.
  std::bitset<scalar_registers> read_, written_;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_STRETCH_H
