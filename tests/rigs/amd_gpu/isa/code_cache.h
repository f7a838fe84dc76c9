// Decoded instructions by address. What is in memory at an address can change between dispatches (code
// objects come and go), so pages of code are compared with what they were decoded from.
#ifndef KERNCAP_AMD_GPU_ISA_CODE_CACHE_H
#define KERNCAP_AMD_GPU_ISA_CODE_CACHE_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "instruction.h"
#include "wave.h"

namespace amd_gpu {

// 4096 bytes of code, and the bytes of an instruction that begins at their end.
struct CodePage {
  static constexpr u64 size_bytes = 4096, overlap_bytes = 16;

  ~CodePage();
  u64 va = 0;
  Target target{};
  size_t available_bytes = 0;  // less where the mapping ends
  std::array<u8, size_bytes + overlap_bytes> bytes{};
  std::array<std::atomic<const Instruction*>, size_bytes / 4> decoded{};
};

// One dispatch's view of the code. Pages are checked when a dispatch first gets to them: code that is changed
// while it runs is not noticed.
class Code {
 public:
  Code(const Dispatch& dispatch) : dispatch_(dispatch), reach_(*dispatch.memory) {}

  // The instruction at `pc`, decoded at its first use. Throws Stop.
  const Instruction& at(u64 pc) {
    if (pc - current_va_ >= CodePage::size_bytes || pc & 3) enter(pc);
    const Instruction* found = current_->decoded[(pc - current_va_) / 4].load(std::memory_order_acquire);
    return found ? *found : decode_at(pc);
  }

  // What runs behind `previous` (which may be null), at `pc`; what does nothing is left out. Sets `next`.
  const Instruction& behind(const Instruction* previous, u64 pc) {
    if (!previous || previous->after != pc) return at(pc);
    const u64 page = current_va_;
    const Instruction* found = &at(pc);
    while (found->idle && current_va_ == page) found = &at(found->after);
    // Another thread may set it too, to the same.
    if (current_va_ == page && !found->steers)
      std::atomic_ref<const Instruction*>(previous->next).store(found, std::memory_order_release);
    return *found;
  }

 private:
  void enter(u64 pc);
  const Instruction& decode_at(u64 pc);

  const Dispatch& dispatch_;
  Reach reach_;
  u64 current_va_ = ~u64{0};
  CodePage* current_ = nullptr;
  std::map<u64, std::shared_ptr<CodePage>> pages_;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_CODE_CACHE_H
