#include "cuda/graph_order.h"

#include <atomic>

#include "common/glibc_floor.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {
namespace {

using stream_order::Call;

// Above every handle and every number of a stream that the driver gives.
uint64_t next_number() noexcept {
  static std::atomic<uint64_t> last{1ULL << 61};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

GraphOrder::GraphOrder(const GraphLaunch& launch, bool begins) noexcept : launch_(launch) {
  if (begins) stream_order::begin();
  if (!stream_order::recording.load(std::memory_order_relaxed)) return;
  begin_ = next_number();
  stream_order::note(Call::record, launch.stream, launch.per_thread, begin_);
}

GraphOrder::Level GraphOrder::enter(const std::vector<GraphNode>& nodes, uint64_t entry) const {
  Level level;
  if (!is_recorded()) return level;
  level.entry = entry;
  for (size_t i = 0; i < nodes.size(); ++i) level.branches.push_back(next_number());
  return level;
}

uint64_t GraphOrder::begin_node(const Level& level, const std::vector<GraphNode>& nodes,
                                size_t number) const noexcept {
  if (!is_recorded()) return 0;
  const uint64_t branch = level.branches[number];
  for (size_t before : nodes[number].after)
    stream_order::note_branch(Call::wait, branch, launch_.context, level.branches[before]);
  if (nodes[number].after.empty())
    stream_order::note_branch(Call::wait, branch, launch_.context, level.entry);
  return branch;
}

void GraphOrder::end_node(uint64_t branch, bool is_known) const noexcept {
  if (branch == 0) return;
  if (!is_known) stream_order::note_branch(Call::unknown, branch, launch_.context, 0);
  stream_order::note_branch(Call::record, branch, launch_.context, branch);
}

void GraphOrder::leave(const Level& level, uint64_t branch) const noexcept {
  for (uint64_t node : level.branches) {
    if (branch != 0)
      stream_order::note_branch(Call::wait, branch, launch_.context, node);
    else
      stream_order::note(Call::wait, launch_.stream, launch_.per_thread, node);
  }
}

}  // namespace kerncap::cuda
