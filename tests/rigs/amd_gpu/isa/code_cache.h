// Decoded instructions by address. What is in memory at an address can change between dispatches (code
// objects come and go), so pages of code are compared with what they were decoded from.
#ifndef KERNCAP_AMD_GPU_ISA_CODE_CACHE_H
#define KERNCAP_AMD_GPU_ISA_CODE_CACHE_H

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "instruction.h"
#include "stretch.h"
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
  // As many vector registers are named by what was decoded here, and accumulation registers.
  std::atomic<u32> vectors_named = 0, accumulators_named = 0;
  // A place that execution has jumped or run to: the stretch that begins there, null if none does.
  struct Entrance {
    std::atomic<bool> tried = false;
    std::atomic<const Stretch*> stretch = nullptr;
  };
  std::array<Entrance, size_bytes / 4> entrances{};
  std::mutex mutex;  // of what follows
  CodeMemory memory;
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

  // Of all that this dispatch has come to; at least as many as it may have written.
  u32 vectors_named() const { return most(&CodePage::vectors_named); }
  u32 accumulators_named() const { return most(&CodePage::accumulators_named); }

  // What runs behind `previous` (which may be null), at `pc`: a Stretch where there is one. What does nothing
  // is left out, but where a branch leads to it. Sets `next` and `then`.
  const Instruction& behind(const Instruction* previous, u64 pc) {
    if (!previous) {
      if (pc != start_pc_) start_ = &as_stretch(at(pc)), start_pc_ = pc;
      return *start_;
    }
    const Instruction* known =
        std::atomic_ref<const Instruction*>(previous->then).load(std::memory_order_acquire);
    if (known && (!previous->steers || known->pc == pc)) return *known;
    return find_behind(*previous, pc);
  }

 private:
  u32 most(std::atomic<u32> CodePage::* named) const {
    u32 found = 0;
    for (const CodePage* page : entered_)
      found = std::max(found, (page->*named).load(std::memory_order_relaxed));
    return found;
  }
  void enter(u64 pc);
  const Instruction& find_behind(const Instruction& previous, u64 pc);
  const Instruction& decode_at(u64 pc);
  // The stretch that begins with an instruction of the current page, or that alone.
  const Instruction& as_stretch(const Instruction& first) {
    if (first.steers) return first;
    CodePage::Entrance& entrance = current_->entrances[(first.pc - current_va_) / 4];
    if (!entrance.tried.load(std::memory_order_acquire)) [[unlikely]]
      make_stretch(first, entrance);
    const Stretch* found = entrance.stretch.load(std::memory_order_relaxed);
    return found ? *found : first;
  }
  void make_stretch(const Instruction& first, CodePage::Entrance& entrance);

  const Dispatch& dispatch_;
  Reach reach_;
  u64 current_va_ = ~u64{0};
  CodePage* current_ = nullptr;
  std::map<u64, std::shared_ptr<CodePage>> pages_;
  std::vector<const CodePage*> entered_;  // of pages_
  u64 start_pc_ = ~u64{0};                // where waves begin
  const Instruction* start_ = nullptr;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_CODE_CACHE_H
