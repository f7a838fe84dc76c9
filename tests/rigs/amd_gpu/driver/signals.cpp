#include "signals.h"

namespace amd_gpu {
namespace {

amd_signal_t* find(const Device& device, hsa_signal_t signal) {
  if (signal.handle == 0) return nullptr;
  auto* const found = device_object<amd_signal_t>(device, signal.handle);
  if (found == nullptr) log(0, "signal %#lx is not mapped into the GPU", signal.handle);
  return found;
}

int64_t* value_of(amd_signal_t* signal) {
  return const_cast<int64_t*>(&signal->value);
}

// A signal with a mailbox has an interrupt: the event's number goes into the mailbox, then the event is set.
// The fields are read before the value changes: after that the host may reuse the signal.
struct Mailbox {
  explicit Mailbox(const amd_signal_t& signal) : va(signal.event_mailbox_ptr), event(signal.event_id) {}
  void notify(const Device& device) const {
    if (va == 0) return;
    if (auto* slot = device_object<uint64_t>(device, va)) __atomic_store_n(slot, event, __ATOMIC_RELEASE);
    driver().events.set(event);
  }
  const uint64_t va;
  const uint32_t event;
};

}  // namespace

bool load(const Device& device, hsa_signal_t signal, int64_t& loaded) {
  amd_signal_t* const found = find(device, signal);
  if (found == nullptr) return false;
  loaded = __atomic_load_n(value_of(found), __ATOMIC_ACQUIRE);
  return true;
}

void complete(const Device& device, hsa_signal_t signal, uint64_t start_clock, uint64_t end_clock) {
  amd_signal_t* const found = find(device, signal);
  if (found == nullptr) return;
  const Mailbox mailbox(*found);
  found->start_ts = start_clock;
  found->end_ts = end_clock;
  __atomic_fetch_sub(value_of(found), 1, __ATOMIC_ACQ_REL);
  mailbox.notify(device);
}

void store(const Device& device, hsa_signal_t signal, int64_t value) {
  amd_signal_t* const found = find(device, signal);
  if (found == nullptr) return;
  const Mailbox mailbox(*found);
  __atomic_store_n(value_of(found), value, __ATOMIC_RELEASE);
  mailbox.notify(device);
}

}  // namespace amd_gpu
