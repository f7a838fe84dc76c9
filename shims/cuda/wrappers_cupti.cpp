// The target, or a profiler that it has loaded (torch.profiler), begins to use CUPTI: a process has one
// subscriber and one set of activity buffers, so ours end first. Torch gives CUPTI another clock before it
// takes the buffers, and from then on records made by the old one have no times (seen with CUPTI 13.0).
#include "common/capture.h"
#include "common/foreign.h"
#include "common/glibc_floor.h"

namespace kerncap {

int ForeignWrap::cuptiSubscribe(void** subscriber, void* callback, void* data) const noexcept {
  capture::profiler_comes();
  return next.cuptiSubscribe(subscriber, callback, data);
}

int ForeignWrap::cuptiActivityRegisterTimestampCallback(void* clock) const noexcept {
  capture::profiler_comes();
  return next.cuptiActivityRegisterTimestampCallback(clock);
}

int ForeignWrap::cuptiActivityRegisterCallbacks(void* requested, void* completed) const noexcept {
  capture::profiler_comes();
  return next.cuptiActivityRegisterCallbacks(requested, completed);
}

int ForeignWrap::cuptiActivityRegisterCallbacks_v2(void* subscriber, void* requested,
                                                   void* completed) const noexcept {
  capture::profiler_comes();
  return next.cuptiActivityRegisterCallbacks_v2(subscriber, requested, completed);
}

}  // namespace kerncap
