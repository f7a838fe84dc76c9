// Times of launches for --list: a barrier before and one after each, whose signals keep the device's clock.
#include <atomic>

#include "common/gate.h"
#include "hip/device.h"
#include "hip/tables.h"

namespace kerncap::hip::times {
namespace {

enum State : int { unused, open, closed, reading };

// Owned by the thread that moved it out of `unused`, until `closed`; by one reader while `reading`.
struct Mark {
  std::atomic<int> state{unused};
  Signal before{}, after{};
  Agent agent{};
  RowNumber row = 0;
};

constexpr size_t mark_count = 256;
Mark marks[mark_count];
std::atomic<size_t> next_mark{0};
thread_local Mark* current = nullptr;

bool prepare(const Hsa& real, Mark& mark) noexcept {
  for (Signal* signal : {&mark.before, &mark.after}) {
    if (signal->handle == 0 && real.hsa_signal_create(1, 0, nullptr, signal) != constant::success)
      return false;
    real.hsa_signal_store_relaxed(*signal, 1);
  }
  return true;
}

uint64_t ticks_a_second(const Hsa& real) noexcept {
  uint64_t frequency = 0;
  real.hsa_system_get_info(constant::system_timestamp_frequency, &frequency);
  return frequency;
}

bool read(const Hsa& real, const Mark& mark, uint64_t* time_ns) noexcept {
  DispatchTime before{}, after{};
  uint64_t frequency = ticks_a_second(real);
  if (frequency == 0 || real.hsa_amd_profiling_get_dispatch_time == nullptr ||
      real.hsa_amd_profiling_get_dispatch_time(mark.agent, mark.before, &before) != constant::success ||
      real.hsa_amd_profiling_get_dispatch_time(mark.agent, mark.after, &after) != constant::success ||
      after.end < before.end)
    return false;
  double ticks = static_cast<double>(after.end - before.end);
  *time_ns = static_cast<uint64_t>(ticks * 1e9 / static_cast<double>(frequency));
  return true;
}

}  // namespace

bool begin(const Launch& launch, RowNumber row, Signal* before, Signal* after) noexcept {
  const Hsa* real = hsa();
  const Agents* all = agents();
  current = nullptr;
  if (real == nullptr || all == nullptr) return false;
  gate::Own own;
  for (size_t tries = 0; tries < mark_count; ++tries) {
    Mark& mark = marks[next_mark.fetch_add(1, std::memory_order_relaxed) % mark_count];
    int expected = unused;
    if (!mark.state.compare_exchange_strong(expected, open)) continue;
    if (!prepare(*real, mark)) {
      mark.state.store(unused);
      return false;
    }
    mark.row = row;
    mark.agent = all->gpus[static_cast<size_t>(launch.device)].agent;
    *before = mark.before;
    *after = mark.after;
    current = &mark;
    return true;
  }
  return false;  // all are under way: that launch is not timed
}

void end() noexcept {
  if (current != nullptr) current->state.store(closed);
  current = nullptr;
}

bool next(RowNumber* row, uint64_t* time_ns) noexcept {
  const Hsa* real = hsa();
  if (real == nullptr) return false;
  gate::Own own;
  for (Mark& mark : marks) {
    int expected = closed;
    if (mark.state.load(std::memory_order_relaxed) != closed ||
        !mark.state.compare_exchange_strong(expected, reading))
      continue;
    if (real->hsa_signal_load_scacquire(mark.after) > 0) {
      mark.state.store(closed);
      continue;
    }
    *row = mark.row;
    bool known = read(*real, mark, time_ns);
    mark.state.store(unused);
    if (known) return true;
  }
  return false;
}

void dispose(const Hsa& real) noexcept {
  for (Mark& mark : marks)
    for (Signal signal : {mark.before, mark.after})
      if (signal.handle != 0) real.hsa_signal_destroy(signal);
}

void forget() noexcept {
  for (Mark& mark : marks) {
    mark.before = mark.after = Signal{0};
    mark.state.store(unused);
  }
}

}  // namespace kerncap::hip::times
