// Times of launches for --list: by CUPTI (activity.h), or by two events around each, read when the device has
// passed them.
#include <algorithm>
#include <atomic>

#include "common/gate.h"
#include "cuda/activity.h"
#include "cuda/device.h"

namespace kerncap::cuda {
namespace {

enum State : int { unused, open, closed, reading };

// Owned by the thread that moved it out of `unused`, until `closed`; by one reader while `reading`.
struct Mark {
  std::atomic<int> state{unused};
  std::atomic<CUcontext> context{nullptr};  // of its events
  std::atomic<uint64_t> serial{0};          // of that context
  CUevent begin = nullptr, end = nullptr;
  RowNumber row = 0;
};

constexpr size_t mark_count = 512;
constexpr size_t most_tries = 8;
constexpr size_t most_pending = 2;  // asked about before a reader gives up: a device runs mostly in order
Mark marks[mark_count];
std::atomic<size_t> next_mark{0}, next_read{0};
thread_local Mark* current = nullptr;

// Null where all are under way: that launch is not timed.
Mark* take(CUcontext context) noexcept {
  for (size_t tries = 0; tries < most_tries; ++tries) {
    Mark& mark = marks[next_mark.fetch_add(1, std::memory_order_relaxed) % mark_count];
    int expected = unused;
    if (!mark.state.compare_exchange_strong(expected, open)) continue;
    uint64_t serial = context_serial(context);
    CUcontext made_in = mark.context.load();
    if (made_in == context && mark.serial.load() == serial) return &mark;
    const Driver& d = *driver();
    // Of a context that is gone: its events went with it.
    bool is_free = made_in == nullptr || context_serial(made_in) != mark.serial.load();
    if (is_free && d.cuEventCreate(&mark.begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
        d.cuEventCreate(&mark.end, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
      mark.context.store(context);
      mark.serial.store(serial);
      return &mark;
    }
    mark.state.store(unused);
  }
  return nullptr;
}

}  // namespace

void CudaDevice::mark_begin(const Launch& launch, RowNumber row) noexcept {
  current = nullptr;
  if (activity::is_on()) return;
  gate::Own own;
  Relaxed relaxed;
  current = take(static_cast<CUcontext>(launch.context));
  if (current == nullptr) return;
  current->row = row;
  if (driver()->cuEventRecord(current->begin, static_cast<CUstream>(launch.stream)) == CUDA_SUCCESS) return;
  current->state.store(unused);
  current = nullptr;
}

void CudaDevice::mark_end(const Launch& launch) noexcept {
  if (current == nullptr) return;
  gate::Own own;
  bool recorded = driver()->cuEventRecord(current->end, static_cast<CUstream>(launch.stream)) == CUDA_SUCCESS;
  current->state.store(recorded ? closed : unused);
  current = nullptr;
}

uint64_t CudaDevice::profiler_stream(const Launch& launch) noexcept {
  return activity::stream_of(launch);
}

void CudaDevice::collect_times(bool is_last) noexcept {
  activity::collect(is_last);
}

void CudaDevice::leave_profiler() noexcept {
  activity::leave();
}

const char* CudaDevice::clock(std::string* reason) {
  return activity::clock(reason);
}

bool CudaDevice::next_time(RowNumber* row, uint64_t* time_ns) noexcept {
  size_t newest = next_mark.load(std::memory_order_relaxed),
         oldest = next_read.load(std::memory_order_relaxed);
  if (oldest == newest) return false;
  const Driver* d = driver();
  if (d == nullptr || cuda::is_capturing()) return false;
  gate::Own own;
  Relaxed relaxed;
  if (newest - oldest > mark_count) oldest = newest - mark_count;
  size_t pending = 0, first_pending = newest;
  for (size_t i = oldest; i < newest && pending < most_pending; ++i) {
    Mark& mark = marks[i % mark_count];
    int expected = closed;
    if (mark.state.load(std::memory_order_relaxed) != closed ||
        !mark.state.compare_exchange_strong(expected, reading)) {
      if (expected == open) first_pending = std::min(first_pending, i);
      continue;
    }
    if (context_serial(mark.context.load()) != mark.serial.load()) {
      mark.state.store(unused);
      continue;
    }
    if (d->cuEventQuery(mark.end) == CUDA_ERROR_NOT_READY) {
      mark.state.store(closed);
      first_pending = std::min(first_pending, i);
      ++pending;
      continue;
    }
    float milliseconds = 0;
    bool known = d->cuEventElapsedTime(&milliseconds, mark.begin, mark.end) == CUDA_SUCCESS;
    *row = mark.row;
    *time_ns = static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6);
    mark.state.store(unused);
    if (!known) continue;
    next_read.store(std::min(first_pending, i + 1), std::memory_order_relaxed);
    return true;
  }
  next_read.store(first_pending, std::memory_order_relaxed);
  return false;
}

}  // namespace kerncap::cuda
