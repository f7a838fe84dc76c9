// The callback of intercepted queues, and what the capture writes to a queue from inside it.
#ifndef KERNCAP_HIP_PACKETS_H
#define KERNCAP_HIP_PACKETS_H

#include "common/launch.h"
#include "hip/queues.h"

namespace kerncap::hip {

// Looks at every packet; all but a chosen launch go on in one batch.
void on_packets(const void* packets, uint64_t count, uint64_t index, void* queue, PacketWriter writer);

// The chosen launch that this thread is in the middle of, with those before it that are not written yet.
// Belongs to the callback's frame.
class Batch {
 public:
  Batch(Queue& queue, PacketWriter writer, const Packet* packets, uint64_t count) noexcept
      : queue_(queue), writer_(writer), packets_(packets), count_(count) {}

  Queue& queue() noexcept { return queue_; }
  const Packet& packet(uint64_t i) const noexcept { return packets_[i]; }
  // The launch that is captured next; all before it that waits is its business.
  void choose(uint64_t i) noexcept {
    chosen_ = i;
    is_written_ = false;
  }
  // --list: signals of ours before and after the chosen packet.
  void time_with(Signal before, Signal after) noexcept {
    time_before_ = before;
    time_after_ = after;
  }
  bool is_timed() const noexcept { return time_after_.handle != 0; }
  // The packets before the chosen one, and the barrier, in one go.
  bool write_barrier(Barrier* barrier) noexcept;
  // The chosen packet; again without its signal, which the target waits for once.
  void write_chosen() noexcept;
  // What is left.
  void write_rest() noexcept;
  // So many batches of our own come between: whether there surely is room.
  bool has_room() noexcept { return queue_.has_room(count_ - done_ + 8); }

  // Null outside of a capture.
  static Batch*& here() noexcept;

 private:
  bool write_with(const Packet* extra, uint64_t extra_count, uint64_t end) noexcept;

  Queue& queue_;
  PacketWriter writer_;
  const Packet* packets_;
  uint64_t count_, done_ = 0, chosen_ = 0;
  bool is_written_ = false;
  Signal time_before_{}, time_after_{};
};

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_PACKETS_H
