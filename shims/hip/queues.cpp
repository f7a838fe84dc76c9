#include "hip/queues.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "common/capture.h"
#include "common/clock.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/timeline.h"
#include "hip/agents.h"
#include "hip/faults.h"
#include "hip/packets.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

constexpr SignalValue progress_start = 1LL << 40;
constexpr uint64_t wake_tag = 0x6b65726e6361702e;  // in a reserved field of packets that only wake
constexpr size_t thread_stack_bytes = 256 * 1024;

// Never destroyed: threads launch until the process ends.
struct Registry {
  std::mutex mutex;
  std::vector<Queue*> queues;
  std::vector<Barrier*> barriers;  // ones that may be free
  unsigned made = 0;
  std::atomic<unsigned> plain{0};
  std::atomic<bool> shared{false}, cooperative{false};
};

Registry& registry() noexcept {
  static auto* instance = new Registry;
  return *instance;
}

uint16_t barrier_header(bool waits) noexcept {
  unsigned header = constant::packet_barrier_and | (waits ? 1U << constant::header_barrier : 0);
  if (waits)
    header |= constant::fence_system << constant::header_acquire | constant::fence_system
                                                                       << constant::header_release;
  return static_cast<uint16_t>(header);
}

void fill_mark(Packet* packet, Signal done) noexcept {
  *packet = Packet();
  packet->barrier.header = barrier_header(false);
  packet->barrier.completion_signal = done;
}

}  // namespace

// --- barriers ------------------------------------------------------------------------------------

Barrier* take_barrier() noexcept try {
  const Hsa* real = hsa();
  if (real == nullptr) return nullptr;
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (size_t i = 0; i < all.barriers.size(); ++i) {
    Barrier* barrier = all.barriers[i];
    if (barrier->state.load() == Barrier::written && !has_passed(*barrier)) continue;  // it still comes
    all.barriers.erase(all.barriers.begin() + static_cast<ptrdiff_t>(i));
    real->hsa_signal_store_relaxed(barrier->signal, 1);
    barrier->state.store(Barrier::asked);
    return barrier;
  }
  auto* barrier = new Barrier;
  if (real->hsa_signal_create(1, 0, nullptr, &barrier->signal) != constant::success) {
    delete barrier;
    return nullptr;
  }
  barrier->state.store(Barrier::asked);
  return barrier;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void give_back(Barrier* barrier) noexcept try {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().barriers.push_back(barrier);
} catch (const std::bad_alloc&) {
  // One signal is lost.
}

bool has_passed(const Barrier& barrier) noexcept {
  const Hsa* real = hsa();
  return real != nullptr && barrier.state.load(std::memory_order_acquire) == Barrier::written &&
         real->hsa_signal_load_scacquire(barrier.signal) <= 0;
}

void fill_barrier(Packet* packet, Signal done) noexcept {
  *packet = Packet();
  packet->barrier.header = barrier_header(true);
  packet->barrier.completion_signal = done;
}

// --- one queue -----------------------------------------------------------------------------------

void Queue::prepare() noexcept {
  const Hsa* real = hsa();
  size = handle->size;
  if (real == nullptr || size < least_size) return;
  if (real->hsa_signal_create(progress_start, 0, nullptr, &progress_) != constant::success) return;
  mark_every_ = size / 4;
}

void Queue::dispose() noexcept {
  const Hsa* real = hsa();
  if (real != nullptr && progress_.handle != 0) real->hsa_signal_destroy(progress_);
}

bool Queue::has_room(uint64_t count) noexcept {
  const Hsa* real = hsa();
  if (real == nullptr || progress_.handle == 0) return false;
  read_ = std::max(read_, idle_at.load(std::memory_order_acquire));
  auto passed = static_cast<uint64_t>(progress_start - real->hsa_signal_load_scacquire(progress_));
  for (; marks_seen_ < passed && marks_seen_ < marks_made_; ++marks_seen_)
    read_ = std::max(read_, marks_[marks_seen_ % most_marks]);
  // One slot is the runtime's, for waking itself when there is room again.
  return (written() - read_ + count) * packets_each + 1 <= size;
}

void Queue::write_marked(PacketWriter writer, const Packet* packets, uint64_t count) noexcept {
  has_room(0);  // sees which marks have passed
  uint64_t now = written() + count;
  Packet few[8];
  std::vector<Packet> many;
  Packet* batch = few;
  try {
    if (count + 1 > sizeof few / sizeof few[0]) {
      many.resize(count + 1);
      batch = many.data();
    }
  } catch (const std::bad_alloc&) {
    batch = nullptr;
  }
  if (batch == nullptr || marks_made_ - marks_seen_ >= most_marks) {
    written_.store(now, std::memory_order_release);
    writer(packets, count);
    return;
  }
  std::memcpy(batch, packets, count * sizeof(Packet));
  fill_mark(&batch[count], progress_);
  last_mark_ = now + 1;
  marks_[marks_made_++ % most_marks] = last_mark_;
  written_.store(last_mark_, std::memory_order_release);
  writer(batch, count + 1);
}

void Queue::serve_wanted(PacketWriter writer) noexcept {
  if (!has_room(4)) return;  // then the one who asked waits in vain, which harms nobody
  Barrier* barrier = wanted.exchange(nullptr, std::memory_order_acq_rel);
  if (barrier == nullptr) return;
  Packet packet;
  fill_barrier(&packet, barrier->signal);
  barrier->position = written() + 1;
  barrier->state.store(Barrier::written, std::memory_order_release);
  write(writer, &packet, 1);
}

// --- all queues ------------------------------------------------------------------------------------

void share_queues(bool shared) noexcept {
  registry().shared.store(shared);
}

Status create_queue(const QueueRequest& request, CreateQueue plain, HsaQueue** queue) noexcept {
  const Hsa& next = real();
  auto make_plain = [&](bool counts) {
    Status status = plain(request.agent, request.size, request.type, request.on_error, request.data,
                          request.private_size, request.group_size, queue);
    if (status == constant::success && counts) registry().plain.fetch_add(1);
    return status;
  };
  int device = ordinal_of(request.agent);
  bool can =
      next.hsa_amd_queue_intercept_create != nullptr && next.hsa_amd_queue_intercept_register != nullptr;
  if (device < 0 || !can || queue == nullptr) return make_plain(device >= 0);
  watch_faults();
  auto* made = new (std::nothrow) Queue;
  if (made == nullptr) return make_plain(true);
  made->agent = request.agent;
  made->device = device;
  made->type = request.type;
  made->on_error = request.on_error;
  made->error_data = request.data;
  // Without a callback of the target's the runtime has one of its own.
  QueueError on_error = request.on_error != nullptr ? queue_failed : nullptr;
  auto make_ours = [&](CreateQueue make) {
    Status status = make(request.agent, request.size, request.type, on_error, made, request.private_size,
                         request.group_size, queue);
    if (status != constant::success) return status;
    made->handle = *queue;
    made->prepare();
    return next.hsa_amd_queue_intercept_register(*queue, on_packets, made);
  };
  gate::Own own;
  Status status = constant::error;
  if (registry().shared.load() && plain == next.hsa_queue_create) {
    // An intercept queue of the other tool's takes our callback, too, and calls it first. One that can't is
    // given back: then we see the packets and that tool doesn't.
    made->packets_each = 8;
    status = make_ours(plain);
    if (status != constant::success && made->handle != nullptr) {
      made->dispose();
      next.hsa_queue_destroy(made->handle);
      made->handle = nullptr;
      made->packets_each = 1;
    }
  }
  if (made->handle == nullptr) status = make_ours(next.hsa_amd_queue_intercept_create);
  if (made->handle == nullptr) {
    delete made;
    return make_plain(true);
  }
  if (made->type == constant::queue_type_cooperative) registry().cooperative.store(true);
  try {
    std::lock_guard<std::mutex> lock(registry().mutex);
    made->number = registry().made++;
    registry().queues.push_back(made);
  } catch (const std::bad_alloc&) {
    registry().plain.fetch_add(1);
    return constant::success;  // an intercept queue that nobody looks at
  }
  if (status != constant::success) registry().plain.fetch_add(1);
  if (capture::lists_only() && next.hsa_amd_profiling_set_profiler_enabled != nullptr)
    next.hsa_amd_profiling_set_profiler_enabled(*queue, 1);
  if (timeline::is_on() && next.hsa_amd_profiling_async_copy_enable != nullptr)
    next.hsa_amd_profiling_async_copy_enable(true);
  return constant::success;
}

bool forget_queue(HsaQueue* handle) noexcept {
  Registry& all = registry();
  Queue* queue = nullptr;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    for (size_t i = 0; i < all.queues.size() && queue == nullptr; ++i) {
      if (all.queues[i]->handle != handle) continue;
      queue = all.queues[i];
      all.queues.erase(all.queues.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  if (queue == nullptr) return true;
  for (Backoff backoff; queue->ringers.load(std::memory_order_acquire) != 0;) backoff.pause();
  queue->dispose();  // the object stays: launches are remembered by it
  return queue->type != constant::queue_type_cooperative;
}

bool has_cooperative_queues() noexcept {
  return registry().cooperative.load();
}

std::vector<Queue*> all_queues() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  return registry().queues;
}

bool streams_may_share_queues(int device) noexcept {
  static const unsigned most = [] {
    const char* given = std::getenv("GPU_MAX_HW_QUEUES");
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 4U;
  }();
  std::lock_guard<std::mutex> lock(registry().mutex);
  const auto& queues = registry().queues;
  return std::count_if(queues.begin(), queues.end(), [device](const Queue* queue) {
           return queue->device == device;
         }) >= static_cast<ptrdiff_t>(most);
}

unsigned plain_queues() noexcept {
  return registry().plain.load();
}

// --- waking ------------------------------------------------------------------------------------------

bool is_wake_packet(const Packet& packet) noexcept {
  return (packet.header & 0xff) == constant::packet_barrier_and && packet.barrier.reserved2 == wake_tag;
}

namespace {

void publish_wake(Queue& queue, uint64_t index) noexcept {
  const Hsa& next = real();
  Packet packet;
  fill_mark(&packet, Signal{0});
  packet.barrier.reserved2 = wake_tag;
  auto* slot = static_cast<Packet*>(queue.handle->base_address) + (index & (queue.size - 1));
  std::memcpy(reinterpret_cast<char*>(slot) + sizeof packet.header,
              reinterpret_cast<const char*>(&packet) + sizeof packet.header,
              sizeof packet - sizeof packet.header);
  // The header makes it a packet, so it comes last.
  __atomic_store_n(&slot->header, packet.header, __ATOMIC_RELEASE);
  next.hsa_signal_store_screlease(queue.handle->doorbell_signal, static_cast<SignalValue>(index));
}

// A full ring is being worked on, or will be as soon as its producer rings: it needs no waking.
void ring(Queue& queue) noexcept {
  const Hsa& next = real();
  for (;;) {
    uint64_t index = next.hsa_queue_load_write_index_scacquire(queue.handle);
    if (index - next.hsa_queue_load_read_index_scacquire(queue.handle) >= queue.size) return;
    if (next.hsa_queue_cas_write_index_scacq_screl(queue.handle, index, index + 1) != index) continue;
    publish_wake(queue, index);
    return;
  }
}

void* ring_on_a_thread(void* argument) {
  auto& queue = *static_cast<Queue*>(argument);
  ring(queue);
  queue.ringers.fetch_sub(1, std::memory_order_acq_rel);
  return nullptr;
}

}  // namespace

// A thread for each time, which may have to wait for the queue's lock: no other queue then waits for it.
bool wake(Queue& queue, std::string* why) noexcept {
  const char* trouble = nullptr;
  if (queue.type == constant::queue_type_single)
    trouble = " has one producer, and no one else may write to it";
  if (queue.size < Queue::least_size) trouble = " is too short for packets of others";
  if (trouble == nullptr) {
    queue.ringers.fetch_add(1, std::memory_order_acq_rel);
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, thread_stack_bytes);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the target's signals are its own threads'
    pthread_t thread;
    bool made = pthread_create(&thread, &attributes, ring_on_a_thread, &queue) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (made) {
      pthread_detach(thread);
      return true;
    }
    queue.ringers.fetch_sub(1, std::memory_order_acq_rel);
    trouble = " can't be woken: no thread can be made";
  }
  try {
    *why = "hsa queue " + std::to_string(queue.number) + trouble;
  } catch (const std::bad_alloc&) {
    // Said in fewer words by the caller.
  }
  return false;
}

void dispose_signals() noexcept {
  const Hsa* real = hsa();
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (real == nullptr) return;
  for (Queue* queue : all.queues) queue->dispose();
  for (Barrier* barrier : all.barriers) real->hsa_signal_destroy(barrier->signal);
  all.queues.clear();
  all.barriers.clear();
}

void forget_queues() noexcept {
  Registry& all = registry();
  all.queues.clear();
  all.barriers.clear();
  all.plain.store(0);
  all.cooperative.store(false);
}

void lock_queues() noexcept {
  registry().mutex.lock();
}
void unlock_queues() noexcept {
  registry().mutex.unlock();
}

}  // namespace kerncap::hip
