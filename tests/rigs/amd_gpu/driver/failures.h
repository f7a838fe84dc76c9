// What AMD_GPU_FAIL asks for, counted.
#ifndef KERNCAP_AMD_GPU_FAILURES_H
#define KERNCAP_AMD_GPU_FAILURES_H

#include <atomic>
#include <cstdint>
#include <vector>

#include "config.h"

namespace amd_gpu {

class Failures {
 public:
  explicit Failures(const std::vector<Failure>& wanted) : wanted_(wanted) {}

  // Whether this one, counted from 1 in each process, is to fail.
  bool allocation();
  bool queue();
  // The number of the next dispatch, over all queues.
  uint64_t next_dispatch() { return ++dispatches_; }
  // The fault that this dispatch is to end in instead of running; FaultKind::none: let it run. `hang` is set
  // where it is to never end, `packet` where it is to be no packet that the GPU knows.
  Fault dispatch(uint64_t number, bool& hang, bool& packet) const;

 private:
  const Failure* find(const char* what, uint64_t number) const;

  const std::vector<Failure>& wanted_;
  std::atomic<uint64_t> allocations_{0}, queues_{0}, dispatches_{0};
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_FAILURES_H
