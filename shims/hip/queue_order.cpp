#include "hip/queue_order.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "common/glibc_floor.h"
#include "hip/tables.h"

namespace kerncap::hip::queue_order {

std::atomic<bool> recording{false};

namespace {

constexpr size_t most = 1U << 16;  // between two launches: beyond that the order is not recorded

struct Noted {
  const char* call;
  uint64_t thread, event;
  const Queue* queue;  // null: of none
};

struct Log {
  std::mutex mutex;
  std::vector<Noted> calls;
  std::unordered_map<uint64_t, uint64_t> completed;  // by signal: the event of the packet that completes it
  uint64_t events = 0;
  bool is_lost = false, is_over = false;
};

Log& log() noexcept {
  static auto* instance = new Log;
  return *instance;
}

void lose(Log& all) noexcept {
  all.is_lost = true;
  all.calls.clear();
  all.completed.clear();
  recording.store(false);
}

void add(Log& all, const char* call, const Queue* queue, uint64_t event) {
  if (all.calls.size() >= most) throw std::bad_alloc();
  all.calls.push_back({call, static_cast<uint64_t>(syscall(SYS_gettid)), event, queue});
}

void wait(Log& all, const Queue& queue, Signal signal) {
  auto found = all.completed.find(signal.handle);
  if (found != all.completed.end()) add(all, word::stream_call::wait, &queue, found->second);
}

// Of a packet that waits until the signal is 0, or below 1: a barrier of AMD's own with one signal.
bool waits_for_zero(const BarrierValuePacket& packet) noexcept {
  constexpr int64_t all_but_sign = INT64_MAX;
  return packet.format == constant::format_barrier_value && (packet.mask & all_but_sign) == all_but_sign &&
         ((packet.condition == constant::condition_less && packet.value == 1) ||
          (packet.condition == constant::condition_equal && packet.value == 0));
}

// Only a packet with the barrier bit ends after all before it in its queue; and only from 1 the signal gets
// to 0 by this packet and by no other.
bool completes(const Hsa& real, const Packet& packet) noexcept {
  return (packet.header >> constant::header_barrier & 1U) != 0 &&
         real.hsa_signal_load_scacquire(packet.barrier.completion_signal) == 1;
}

}  // namespace

void note_known(const Queue& queue, const Packet& packet) noexcept {
  const Hsa* real = hsa();
  bool may_share = streams_may_share_queues(queue.device);
  Log& all = log();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.is_lost || real == nullptr) return;
  try {
    if (may_share) return lose(all);  // a packet then may come after another stream's
    unsigned type = packet.header & 0xffU;
    if (type == constant::packet_barrier_and)
      for (Signal signal : packet.barrier.dep_signal) wait(all, queue, signal);
    else if (type == constant::packet_vendor && waits_for_zero(packet.barrier_value))
      wait(all, queue, packet.barrier_value.signal);
    Signal done = packet.barrier.completion_signal;
    if (done.handle == 0) return;
    all.completed.erase(done.handle);
    if (!completes(*real, packet)) return;
    add(all, word::stream_call::record, &queue, ++all.events);
    all.completed[done.handle] = all.events;
  } catch (const std::bad_alloc&) {
    lose(all);
  }
}

void forget_known(Signal signal) noexcept {
  Log& all = log();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.completed.erase(signal.handle);
}

void write(json::Writer& json, const Launch& launch, bool is_last) noexcept {
  const auto* queue = static_cast<const Queue*>(launch.stream);
  Log& all = log();
  std::lock_guard<std::mutex> lock(all.mutex);
  // Nodes of a graph that nothing orders may be in one queue, or wait for each other's.
  if (!launch.dispatch.in_order || launch.turn.graph >= 0) lose(all);
  if (all.is_lost) return;
  try {
    add(all, word::stream_call::unknown, nullptr, 0);  // what is not seen here
    add(all, word::stream_call::launch, queue, 0);
  } catch (const std::bad_alloc&) {
    return lose(all);
  }
  all.is_over = all.is_over || is_last;
  recording.store(!all.is_over);
  json.key(key::order).begin_array();
  for (const Noted& noted : all.calls) {
    json.begin_object().field(key::call, noted.call).field(key::thread, noted.thread);
    if (noted.event != 0) json.field(key::event, noted.event);
    if (noted.queue != nullptr)
      json.field(key::stream_number, uint64_t{noted.queue->number} + 1)
          .field(key::stream_kind, word::stream_kind::non_blocking)
          .field(key::context, static_cast<uint64_t>(noted.queue->device) + 1);
    json.end();
  }
  json.end();
  all.calls.clear();
}

void lock() noexcept {
  log().mutex.lock();
}

void unlock() noexcept {
  log().mutex.unlock();
}

void forget_after_fork() noexcept {
  recording.store(false);
  log().calls.clear();
  log().completed.clear();
  log().is_lost = log().is_over = false;
}

}  // namespace kerncap::hip::queue_order
