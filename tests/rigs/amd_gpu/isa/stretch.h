// Stretches: instructions one behind the other, up to a branch, as one function of the host. Of those that
// work lane by lane, a row of sixteen lanes goes through all in the host's registers before the next one
// does. What an instruction does is still said in its own file, which is called; here are the common ones,
// again, and tests hold both to the same results. Where a row can't reach memory, the rows before it have run
// on to the next call. Where the host has no AVX-512 there are no stretches.
#ifndef KERNCAP_AMD_GPU_ISA_STRETCH_H
#define KERNCAP_AMD_GPU_ISA_STRETCH_H

#include <bitset>
#include <memory>
#include <vector>

#include "code_memory.h"
#include "wave.h"

namespace amd_gpu {

// Runs as one instruction, where execution comes to the first of them.
struct Stretch : Instruction {
  using Code = void (*)(Registers&, u32* scalars, const u32* constants);
  Code all_lanes = nullptr, some_lanes = nullptr;
  std::vector<u32> constants;
};

using ScalarSet = std::bitset<scalar_registers>;

// Instructions of which a row of lanes goes through all that work lane by lane before the next one does.
class StretchPart {
 public:
  std::vector<const Instruction*> before, lanes, behind;

  // False where the instruction can't be part of it.
  bool add_lanes(const Instruction& instruction);
  bool add_scalar(const Instruction& instruction);
  // Anything, behind all others.
  void end(const Instruction& instruction) {
    behind.push_back(&instruction);
    ended_ = true;
  }
  bool writes_exec() const { return behind_written_[exec_lo] || behind_written_[exec_lo + 1]; }
  const ScalarSet& masks_written() const { return written_; }

 private:
  // Scalar registers that are read for all lanes, of which each row reads its own bits, and writes its own.
  ScalarSet read_, bits_read_, written_;
  ScalarSet behind_read_, behind_written_;  // by what runs behind all rows
  // Of a store, rows have done all before it when the first of them stores, and nothing behind it when one
  // faults: other rows may load what it stores, and a core dump shows their addresses.
  bool stores_ = false;
  bool loads_ = false, ended_ = false;
};

class StretchBuilder {
 public:
  // False where the instruction can't be part of it.
  bool add(const Instruction& instruction);
  // Null where no instruction works lane by lane, or there is no memory for it.
  std::unique_ptr<Stretch> finish(CodeMemory& memory) const;

 private:
  std::vector<StretchPart> parts_{1};
  const Instruction *first_ = nullptr, *last_ = nullptr;
  unsigned count_ = 0;
  bool ended_ = false;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_STRETCH_H
