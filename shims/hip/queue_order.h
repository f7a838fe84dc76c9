// What the program's packets say of the order of a range's launches: one queue waits for a signal that a
// packet of another one completes.
//
// That is how HIP's events reach the device, if one is not over yet when it is waited for. What else orders
// launches, such as a wait of the host, is not seen here, so no two launches are ever said to be unordered.
// Recorded from the first launch of a range on; until then a hooked call costs one load.
#ifndef KERNCAP_HIP_QUEUE_ORDER_H
#define KERNCAP_HIP_QUEUE_ORDER_H

#include <atomic>

#include "common/json.h"
#include "common/launch.h"
#include "hip/queues.h"

namespace kerncap::hip::queue_order {

extern std::atomic<bool> recording;

// A packet of the program, before the hardware gets it; a launch after `write`.
void note_known(const Queue& queue, const Packet& packet) noexcept;
inline void note(const Queue& queue, const Packet& packet) noexcept {
  if (recording.load(std::memory_order_relaxed)) note_known(queue, packet);
}

// Another value is stored, or something else completes it: who waits for it waits for no packet from now on.
void forget_known(Signal signal) noexcept;
inline void forget(Signal signal) noexcept {
  if (recording.load(std::memory_order_relaxed)) forget_known(signal);
}

// As Device::write_order.
void write(json::Writer& json, const Launch& launch, bool is_last) noexcept;

void lock() noexcept;
void unlock() noexcept;
void forget_after_fork() noexcept;

}  // namespace kerncap::hip::queue_order

#endif  // KERNCAP_HIP_QUEUE_ORDER_H
