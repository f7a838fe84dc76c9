#include "code_cache.h"

#include <algorithm>

#include "decode.h"

namespace amd_gpu {
namespace {

// Pages of all dispatches. A page stays alive while a dispatch runs it, also when another one has replaced
// it.
struct Pages {
  std::mutex mutex;
  std::map<std::pair<Target, u64>, std::shared_ptr<CodePage>> by_address;
};

Pages& pages() {
  static Pages& all = *new Pages;  // leaked: queues of a process that exits may still run
  return all;
}

std::shared_ptr<CodePage> read_page(const Dispatch& dispatch, u64 va, Reach& reach, u64 pc) {
  auto page = std::make_shared<CodePage>();
  page->va = va;
  page->target = dispatch.target;
  // A mapping may begin or end inside of the page.
  Mapping mapping;
  if (!dispatch.memory->find(pc, mapping)) stop_unreachable(*dispatch.memory, pc, false);
  const u64 first = std::max(va, mapping.device_va), mapping_end = mapping.device_va + mapping.size_bytes;
  const u64 end = std::min(va + page->bytes.size(), mapping_end);
  reach.refresh();
  reach.read(first, page->bytes.data() + (first - va), static_cast<u32>(end - first));
  page->available_bytes = end - va;
  return page;
}

constexpr u32 accumulation = 256;  // the number of the first accumulation register

void raise(std::atomic<u32>& most, u32 to) {
  for (u32 known = most; known < to && !most.compare_exchange_weak(known, to);) {
  }
}

}  // namespace

CodePage::~CodePage() {
  for (auto& slot : decoded) delete slot.load();
  for (auto& entrance : entrances) delete entrance.stretch.load();
}

void Code::enter(u64 pc) {
  if (pc & 3) throw Stop{FaultKind::illegal, "the program counter is not a multiple of 4"};
  const u64 va = pc & ~(CodePage::size_bytes - 1);
  std::shared_ptr<CodePage>& mine = pages_[va];
  if (!mine) {
    std::shared_ptr<CodePage> now = read_page(dispatch_, va, reach_, pc);
    std::lock_guard<std::mutex> guard(pages().mutex);
    std::shared_ptr<CodePage>& known = pages().by_address[{dispatch_.target, va}];
    if (!known || known->bytes != now->bytes || known->available_bytes != now->available_bytes) known = now;
    mine = known;
    entered_.push_back(mine.get());
  }
  current_va_ = va;
  current_ = mine.get();
}

const Instruction& Code::find_behind(const Instruction& previous, u64 pc) {
  const Instruction* found = &at(pc);
  const u64 page = current_va_;
  if (previous.pc - page >= CodePage::size_bytes) return as_stretch(*found);
  while (!previous.steers && found->idle && found->after - page < CodePage::size_bytes)
    found = &at(found->after);
  found = &as_stretch(*found);
  // Another thread may set `next` too, to the same, and `then` to what ran there.
  const auto set = [&](const Instruction*& link) {
    std::atomic_ref<const Instruction*>(link).store(found, std::memory_order_release);
  };
  set(previous.then);
  if (!previous.steers && !found->steers) set(previous.next);
  return *found;
}

const Instruction& Code::decode_at(u64 pc) {
  CodePage& page = *current_;
  const u64 at = pc - page.va;
  if (at >= page.available_bytes) stop_unreachable(*dispatch_.memory, pc, false);
  auto made = std::make_unique<Instruction>(
      decode(page.target, page.bytes.data() + at, page.available_bytes - at, pc));
  for (const Operand& operand : made->operands) {
    if (!operand.is_vector()) continue;
    const u32 end = u32{operand.index} + operand.words;
    raise(page.vectors_named, std::min(end, accumulation));
    if (end > accumulation) raise(page.accumulators_named, end - accumulation);
  }
  if (made->mnemonic.starts_with("s_set_gpr_idx_")) {  // others then
    raise(page.vectors_named, accumulation);
    raise(page.accumulators_named, accumulation);
  }
  // Another queue may have been faster.
  const Instruction* expected = nullptr;
  if (page.decoded[at / 4].compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *expected;
}

void Code::make_stretch(const Instruction& first, CodePage::Entrance& entrance) {
  const std::lock_guard<std::mutex> guard(current_->mutex);
  if (entrance.tried.load(std::memory_order_relaxed)) return;
  StretchBuilder builder;
  try {
    const Instruction* in = &first;
    while ((in->idle || builder.add(*in)) && in->after - current_va_ < CodePage::size_bytes)
      in = &at(in->after);
  } catch (const Stop&) {  // execution may never come there
  }
  std::unique_ptr<Stretch> made = builder.finish(current_->memory);
  if (made) made->pc = first.pc;
  entrance.stretch.store(made.release(), std::memory_order_relaxed);
  entrance.tried.store(true, std::memory_order_release);
}

}  // namespace amd_gpu
