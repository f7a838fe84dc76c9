// Times of launches for --list: by CUPTI (activity.h), or by two events around each, read when the device has
// passed them.
#include <algorithm>
#include <atomic>

#include "common/clock.h"
#include "common/gate.h"
#include "cuda/activity.h"
#include "cuda/device.h"

namespace kerncap::cuda {
namespace {

enum State : int { unused, open, closed, reading };

// An event whose time on the host is known, for --timeline.
struct Origin {
  CUcontext context = nullptr;
  uint64_t serial = 0;  // of that context
  CUevent event = nullptr;
  uint64_t time_ns = 0;
};

// Owned by the thread that moved it out of `unused`, until `closed`; by one reader while `reading`.
struct Mark {
  std::atomic<int> state{unused};
  std::atomic<CUcontext> context{nullptr};  // of its events
  std::atomic<uint64_t> serial{0};          // of that context
  CUevent begin = nullptr, end = nullptr;
  RowNumber row = 0;
  Origin origin;
};

constexpr size_t mark_count = 512;
constexpr size_t most_tries = 8;
constexpr size_t most_pending = 2;  // asked about before a reader gives up: a device runs mostly in order
Mark marks[mark_count];
std::atomic<size_t> next_mark{0}, next_read{0};
thread_local Mark* current = nullptr;

uint64_t as_ns(float milliseconds) noexcept {
  return static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6);
}

// Events tell the time between two as a float of milliseconds: after this time, by half a microsecond.
constexpr uint64_t origin_lasts_ns = 4 * second_ns, good_width_ns = 20000, longest_wait_ns = second_ns;

// False if it does not pass soon: streams may share a queue with a kernel that waits for this thread.
bool passes(CUevent event) noexcept {
  uint64_t deadline = now_ns() + longest_wait_ns;
  CUresult status = CUDA_ERROR_NOT_READY;
  while (status == CUDA_ERROR_NOT_READY && now_ns() < deadline) status = driver()->cuEventQuery(event);
  return status == CUDA_SUCCESS;
}

// Recorded on a stream of ours, which waits for no other: the target's work goes on as it is.
bool make_origin(CUcontext context, Origin* origin) noexcept {
  const Driver& d = *driver();
  CUstream stream = nullptr;
  *origin = {context, context_serial(context), nullptr, 0};
  if (d.cuEventCreate(&origin->event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
  bool made = d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
  // It passes between two looks at the clock; whoever is put to sleep there tries again.
  uint64_t width_ns = UINT64_MAX;
  for (int tries = 0; made && tries < 8 && width_ns > good_width_ns; ++tries) {
    uint64_t before_ns = now_ns();
    made = d.cuEventRecord(origin->event, stream) == CUDA_SUCCESS && passes(origin->event);
    width_ns = now_ns() - before_ns;
    origin->time_ns = before_ns + width_ns / 2;
  }
  if (stream != nullptr) d.cuStreamDestroy(stream);
  return made;
}

// The thread's newest one of the context; without an event, for good, if one could not be made. Its events
// are never destroyed: marks may hold them.
Origin origin_of(CUcontext context) noexcept {
  if (!timeline::is_on()) return {};
  thread_local Origin newest;
  bool is_made = newest.context == context && newest.serial == context_serial(context);
  bool is_new = is_made && (newest.event == nullptr || now_ns() - newest.time_ns < origin_lasts_ns);
  if (!is_new && !make_origin(context, &newest)) newest.event = nullptr;
  return newest;
}

// Null if all are under way: that launch is not timed.
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
  current->origin = origin_of(static_cast<CUcontext>(launch.context));
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

void CudaDevice::start_profiler() noexcept {
  activity::is_on();
}

void CudaDevice::leave_profiler() noexcept {
  activity::leave();
}

const char* CudaDevice::clock(std::string* reason) {
  return activity::clock(reason);
}

bool CudaDevice::next_time(RowNumber* row, Span* span) noexcept {
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
    *span = {0, as_ns(milliseconds)};
    float since = 0;
    if (mark.origin.event != nullptr &&
        d->cuEventElapsedTime(&since, mark.origin.event, mark.begin) == CUDA_SUCCESS && since >= 0) {
      span->start_ns = mark.origin.time_ns + as_ns(since);
      span->end_ns += span->start_ns;
    }
    mark.state.store(unused);
    if (!known) continue;
    next_read.store(std::min(first_pending, i + 1), std::memory_order_relaxed);
    return true;
  }
  next_read.store(first_pending, std::memory_order_relaxed);
  return false;
}

}  // namespace kerncap::cuda
