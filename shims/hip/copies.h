// Copies that the target has started and that nobody knows to be done.
//
// They run beside all queues, so nothing else tells when they have ended: their signals are watched. A
// signal that the target stores to or destroys has been waited for, or is another's by now.
#ifndef KERNCAP_HIP_COPIES_H
#define KERNCAP_HIP_COPIES_H

#include <atomic>

#include "hip/hsa_api.h"

namespace kerncap::hip::copies {

// What is copied, for --timeline. A GPU's ordinal; -1: the host.
struct Copied {
  int to = -1, from = -1;
  uint64_t bytes = 0;  // 0: not told
};

// A copy is about to start that will count `done` down.
void begin(Signal done, const Copied& copied) noexcept;
// It could not be started.
void abandon(Signal done) noexcept;

extern std::atomic<bool> any;
void forget_known(Signal signal) noexcept;
inline void forget(Signal signal) noexcept {
  if (any.load(std::memory_order_relaxed)) forget_known(signal);
}

bool all_done() noexcept;

void reset() noexcept;
void lock() noexcept;
void unlock() noexcept;

}  // namespace kerncap::hip::copies

#endif  // KERNCAP_HIP_COPIES_H
