// The real driver: one pointer per function that the shim hooks or calls, found without going
// through its own wrappers.
#ifndef KERNCAP_CUDA_DRIVER_H
#define KERNCAP_CUDA_DRIVER_H

#include <atomic>

#include "cuda/cuda_api.h"

namespace kerncap::cuda {

// Filled on first need from libcuda.so.1 as the target has loaded it; a function that this driver
// lacks stays null. Expands from hooks.def (hooked) and calls.def (called only).
struct Driver {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) result(CUDAAPI* symbol) parameters = nullptr;
#define KERNCAP_CALL(symbol, result, parameters) result(CUDAAPI* symbol) parameters = nullptr;
#include "cuda/calls.def"
#include "cuda/hooks.def"
};

namespace detail {
extern std::atomic<const Driver*> known_driver;
const Driver* find_driver() noexcept;
}  // namespace detail

// Null while the target has not loaded the driver.
inline const Driver* driver() noexcept {
  const Driver* known = detail::known_driver.load(std::memory_order_acquire);
  return __builtin_expect(known != nullptr, 1) ? known : detail::find_driver();
}

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

// For the length of a scope another context is current.
class InContext {
 public:
  explicit InContext(CUcontext context) noexcept
      : pushed_(context != nullptr && driver()->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {}
  ~InContext() noexcept {
    CUcontext popped;
    if (pushed_) driver()->cuCtxPopCurrent_v2(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  bool pushed_;
};

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_DRIVER_H
