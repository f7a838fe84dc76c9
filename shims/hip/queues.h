// The target's queues: intercepted by the runtime, so that this shim sees each packet before the hardware.
//
// What is relied on of the runtime's InterceptQueue (ROCr 5.2 to 6.4, core/runtime/intercept_queue.cpp):
// - A doorbell rung by the host runs the callback on that thread, under a lock of the queue's own. A thread
//   that waits at our gate inside a callback therefore keeps everybody else from ringing that queue: the
//   gate's owner must never do so itself, nor anything that does.
// - The lock of one queue is no other queue's. A doorbell rung inside a callback is put off to the
//   runtime's event thread; this shim rings none there.
// - When the callback is entered, all that was written before is in the hardware's queue. The writer puts a
//   batch there whole, or, if there is no room, none of it, to be written once the callback has
//   returned. A second batch of the same callback could then overtake the first: so nothing is written in
//   several batches unless there surely is room (Queue::has_room).
// - What a callback does not write is dropped; what it writes need not have come from the target.
#ifndef KERNCAP_HIP_QUEUES_H
#define KERNCAP_HIP_QUEUES_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hip/hsa_api.h"

namespace kerncap::hip {

// A barrier packet's signal that tells when all before it has ended. Used again only when its packet is done:
// one that was written after its asker had given up still comes.
struct Barrier {
  enum State : int { free, asked, written };
  std::atomic<int> state{free};
  Signal signal{};
  uint64_t position = 0;  // what the queue had been given up to and with it
};

Barrier* take_barrier() noexcept;  // null: no signal can be made
void give_back(Barrier* barrier) noexcept;
bool has_passed(const Barrier& barrier) noexcept;
void fill_barrier(Packet* packet, Signal done) noexcept;

class Queue {
 public:
  static constexpr uint32_t least_size = 16;  // of a queue that captures can write several batches to

  HsaQueue* handle = nullptr;
  Agent agent{};
  int device = 0;
  unsigned number = 0;
  uint32_t type = 0, size = 0;
  uint32_t packets_each = 1;  // at most, that reach the hardware for one of ours: another tool adds its own
  QueueError on_error = nullptr;  // the target's
  void* error_data = nullptr;
  std::atomic<uint64_t> idle_at{0};       // up to here all has ended
  std::atomic<Barrier*> wanted{nullptr};  // by the gate's owner, not yet written
  std::atomic<int> ringers{0};            // threads of ours that wake it
  std::atomic<bool> inside{false};        // a callback is under way

  uint64_t written() const noexcept { return written_.load(std::memory_order_acquire); }
  bool is_idle() const noexcept { return written() == idle_at.load(std::memory_order_acquire); }

  // In the callback only. Passes packets on, in one batch.
  void write(PacketWriter writer, const Packet* packets, uint64_t count) noexcept {
    uint64_t now = written_.load(std::memory_order_relaxed) + count;
    if (now - last_mark_ >= mark_every_) {
      write_marked(writer, packets, count);
      return;
    }
    written_.store(now, std::memory_order_release);
    writer(packets, count);
  }
  // In the callback only: whether so many packets surely fit beside what is in the hardware's queue.
  bool has_room(uint64_t count) noexcept;
  // In the callback only: writes the barrier that the gate's owner asked for.
  void serve(PacketWriter writer) noexcept {
    if (wanted.load(std::memory_order_relaxed) != nullptr) serve_wanted(writer);
  }
  // Makes what it needs of the runtime; `handle` is set.
  void prepare() noexcept;
  void dispose() noexcept;

 private:
  void write_marked(PacketWriter writer, const Packet* packets, uint64_t count) noexcept;
  void serve_wanted(PacketWriter writer) noexcept;

  // Every quarter of its length a barrier of ours, which holds nothing up, counts `progress_` down when
  // the hardware has read so far.
  static constexpr uint64_t most_marks = 8;
  std::atomic<uint64_t> written_{0};
  uint64_t last_mark_ = 0, mark_every_ = UINT64_MAX;
  Signal progress_{};
  uint64_t marks_[most_marks] = {};
  uint64_t marks_seen_ = 0, marks_made_ = 0;
  uint64_t read_ = 0;  // by the hardware, at least
};

// Creates an intercept queue, or a plain one if that fails (see plain_queues).
using CreateQueue = Status (*)(Agent, uint32_t, uint32_t, QueueError, void*, uint32_t, uint32_t, HsaQueue**);
// Whether the tool before us makes queues of its own, which are then shared with it.
void share_queues(bool shared) noexcept;
struct QueueRequest {
  Agent agent;
  uint32_t size, type;
  QueueError on_error;
  void* data;
  uint32_t private_size, group_size;
};
Status create_queue(const QueueRequest& request, CreateQueue plain, HsaQueue** queue) noexcept;
// Before it is destroyed. Waits for threads of ours that wake it.
// Whether it is to be destroyed. One for cooperative launches is not: the runtime keeps the queue under it
// for the agent, and destroys it at its end, but an intercept queue that is destroyed takes that one with it.
// Source: ROCr, InterceptQueue and GpuAgent::gws_queue_.
bool forget_queue(HsaQueue* queue) noexcept;
// Whether one for cooperative launches was made.
bool has_cooperative_queues() noexcept;

std::vector<Queue*> all_queues();
// Whether several of HIP's streams may be on one queue of this device: each gets a queue of its own until
// there are as many as HIP makes. Source: rocdevice.cpp of ROCclr, ROCm 5 to 7.
bool streams_may_share_queues(int device) noexcept;
unsigned plain_queues() noexcept;  // whose packets nobody sees
// Wakes a queue from a thread of ours, so that its callback serves `wanted`. False: `why` it can't be.
bool wake(Queue& queue, std::string* why) noexcept;
// Whether this packet only wakes.
bool is_wake_packet(const Packet& packet) noexcept;

// The signals of queues and barriers, before the runtime shuts down.
void dispose_signals() noexcept;
void forget_queues() noexcept;
void lock_queues() noexcept;
void unlock_queues() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_QUEUES_H
