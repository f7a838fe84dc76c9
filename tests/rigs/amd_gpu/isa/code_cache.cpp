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

}  // namespace

CodePage::~CodePage() {
  for (auto& slot : decoded) delete slot.load();
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
  }
  current_va_ = va;
  current_ = mine.get();
}

const Instruction& Code::decode_at(u64 pc) {
  CodePage& page = *current_;
  const u64 at = pc - page.va;
  if (at >= page.available_bytes) stop_unreachable(*dispatch_.memory, pc, false);
  auto made = std::make_unique<Instruction>(
      decode(page.target, page.bytes.data() + at, page.available_bytes - at, pc));
  // Another queue may have been faster.
  const Instruction* expected = nullptr;
  if (page.decoded[at / 4].compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *expected;
}

}  // namespace amd_gpu
