// Times of launches for --list: a barrier before and one after each, whose signals keep the device's clock.
#include <atomic>

#include "common/clock.h"
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

// The runtime's clock, read once: a tick in nanoseconds, and the host's time at a tick.
struct Clock {
  double tick_ns = 0;
  uint64_t ticks = 0, host_ns = 0;
};

Clock read_clock(const Hsa& real) noexcept {
  Clock clock;
  uint64_t frequency = 0;
  if (real.hsa_system_get_info(constant::system_timestamp_frequency, &frequency) != constant::success ||
      frequency == 0 ||
      real.hsa_system_get_info(constant::system_timestamp, &clock.ticks) != constant::success)
    return clock;
  clock.host_ns = now_ns();
  clock.tick_ns = 1e9 / static_cast<double>(frequency);
  return clock;
}

bool read(const Hsa& real, const Mark& mark, Span* span) noexcept {
  DispatchTime before{}, after{};
  if (real.hsa_amd_profiling_get_dispatch_time == nullptr ||
      real.hsa_amd_profiling_get_dispatch_time(mark.agent, mark.before, &before) != constant::success ||
      real.hsa_amd_profiling_get_dispatch_time(mark.agent, mark.after, &after) != constant::success ||
      after.end < before.end)
    return false;
  return on_host(real, before.end, after.end, span);
}

}  // namespace

bool on_host(const Hsa& real, uint64_t start, uint64_t end, Span* span) noexcept {
  static const Clock clock = read_clock(real);
  if (clock.tick_ns == 0) return false;
  auto ahead = static_cast<double>(static_cast<int64_t>(start - clock.ticks)) * clock.tick_ns;
  span->start_ns = clock.host_ns + static_cast<uint64_t>(static_cast<int64_t>(ahead));
  span->end_ns = span->start_ns + static_cast<uint64_t>(static_cast<double>(end - start) * clock.tick_ns);
  return true;
}

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

bool next(RowNumber* row, Span* span) noexcept {
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
    bool known = read(*real, mark, span);
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
