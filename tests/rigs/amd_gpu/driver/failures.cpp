#include "failures.h"

namespace amd_gpu {

const Failure* Failures::find(const char* what, uint64_t number) const {
  for (const Failure& failure : wanted_) {
    if (failure.what == what && failure.number == number) return &failure;
  }
  return nullptr;
}

bool Failures::allocation() {
  return !wanted_.empty() && find("allocation", ++allocations_) != nullptr;
}

bool Failures::queue() {
  return !wanted_.empty() && find("queue", ++queues_) != nullptr;
}

Fault Failures::dispatch(uint64_t number, bool& hang, bool& packet) const {
  static constexpr struct {
    const char* what;
    FaultKind kind;
  } kinds[] = {{"memory", FaultKind::memory},
               {"aperture", FaultKind::aperture},
               {"illegal", FaultKind::illegal},
               {"trap", FaultKind::trap}};
  Fault fault;
  hang = find("hang", number) != nullptr;
  packet = find("packet", number) != nullptr;
  for (const auto& [what, kind] : kinds) {
    const Failure* const failure = find(what, number);
    if (failure == nullptr) continue;
    fault.kind = kind;
    fault.address = failure->address;
    fault.text = "asked for by AMD_GPU_FAIL";
  }
  return fault;
}

}  // namespace amd_gpu
