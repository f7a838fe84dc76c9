// Times of launches for --list: two events around each, read when the device has passed them.
#include <atomic>

#include "common/gate.h"
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
  Kernel* kernel = nullptr;
};

constexpr size_t mark_count = 512;
Mark marks[mark_count];
std::atomic<size_t> next_mark{0};
thread_local Mark* current = nullptr;

// A capture that another thread begins meanwhile is not broken by what is asked in this scope.
class Relaxed {
 public:
  Relaxed() noexcept : exchange_(driver()->cuThreadExchangeStreamCaptureMode) {
    exchanged_ = exchange_ != nullptr && exchange_(&mode_) == CUDA_SUCCESS;
  }
  ~Relaxed() noexcept {
    if (exchanged_) exchange_(&mode_);
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  CUresult (*exchange_)(CUstreamCaptureMode*);
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

// Null where all are under way: that launch is not timed.
Mark* take(CUcontext context) noexcept {
  for (size_t tries = 0; tries < mark_count; ++tries) {
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

void CudaDevice::mark_begin(const Launch& launch) noexcept {
  gate::Own own;
  Relaxed relaxed;
  current = take(static_cast<CUcontext>(launch.context));
  if (current == nullptr) return;
  current->kernel = launch.kernel;
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

bool CudaDevice::next_time(Kernel** kernel, uint64_t* time_ns) noexcept {
  const Driver* d = driver();
  if (d == nullptr || cuda::is_capturing()) return false;
  gate::Own own;
  Relaxed relaxed;
  for (Mark& mark : marks) {
    int expected = closed;
    if (mark.state.load(std::memory_order_relaxed) != closed ||
        !mark.state.compare_exchange_strong(expected, reading))
      continue;
    if (context_serial(mark.context.load()) != mark.serial.load()) {
      mark.state.store(unused);
      continue;
    }
    if (d->cuEventQuery(mark.end) == CUDA_ERROR_NOT_READY) {
      mark.state.store(closed);
      continue;
    }
    float milliseconds = 0;
    bool known = d->cuEventElapsedTime(&milliseconds, mark.begin, mark.end) == CUDA_SUCCESS;
    *kernel = mark.kernel;
    *time_ns = static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6);
    mark.state.store(unused);
    if (known) return true;
  }
  return false;
}

}  // namespace kerncap::cuda
