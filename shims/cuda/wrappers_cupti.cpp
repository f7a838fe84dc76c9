// The target, or a profiler that it has loaded (torch.profiler), takes CUPTI's activity buffers: a process
// has one set of them, so ours end first.
#include "common/capture.h"
#include "common/glibc_floor.h"
#include "cuda/foreign.h"

namespace kerncap::cuda {

int ForeignWrap::cuptiActivityRegisterCallbacks(void* requested, void* completed) const noexcept {
  capture::profiler_comes();
  return next.cuptiActivityRegisterCallbacks(requested, completed);
}

int ForeignWrap::cuptiActivityRegisterCallbacks_v2(void* subscriber, void* requested,
                                                   void* completed) const noexcept {
  capture::profiler_comes();
  return next.cuptiActivityRegisterCallbacks_v2(subscriber, requested, completed);
}

}  // namespace kerncap::cuda
