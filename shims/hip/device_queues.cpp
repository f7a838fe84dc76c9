// Draining: barriers of ours in every queue that may have work.
//
// The launch's own queue gets its barrier from the thread that captures, which is inside that queue's
// callback. Any other queue is served by the thread in its callback, which may be waiting at the gate, or
// which a thread of ours brings there (queues.h).
#include "common/clock.h"
#include "common/glibc_floor.h"
#include "hip/copies.h"
#include "hip/device.h"
#include "hip/faults.h"
#include "hip/packets.h"

namespace kerncap::hip {
namespace {

thread_local Barrier* mark_here = nullptr;

}  // namespace

void HipDevice::begin_drain() {
  for (const Busy& busy : busy_) settle(busy);
  busy_.clear();
  trouble_.clear();
  Batch* own = Batch::here();
  std::vector<Queue*> all = all_queues();
  busy_.reserve(all.size() + 1);
  for (Queue* queue : all) {
    bool is_own = own != nullptr && &own->queue() == queue;
    if (!is_own && queue->is_idle()) continue;
    Barrier* barrier = take_barrier();
    if (barrier == nullptr) {
      trouble_ = "no signal can be made";
      return;
    }
    busy_.push_back({queue, barrier, false});
    if (is_own) {
      if (!own->write_barrier(barrier)) trouble_ = "memory is short";
    } else {
      ask(busy_.back());
    }
  }
}

void HipDevice::ask(Busy& busy) {
  Queue& queue = *busy.queue;
  if (!busy.woken) queue.wanted.store(busy.barrier, std::memory_order_release);
  busy.woken = true;
  // Somebody in its callback serves it; one of our threads may be on its way there already.
  if (queue.inside.load(std::memory_order_acquire) || queue.ringers.load(std::memory_order_acquire) != 0)
    return;
  wake(queue, &trouble_);
}

// Its barrier may still be asked for, or come late.
void HipDevice::settle(const Busy& busy) noexcept {
  Barrier* asked = busy.barrier;
  if (busy.queue->wanted.compare_exchange_strong(asked, nullptr, std::memory_order_acq_rel))
    busy.barrier->state.store(Barrier::free);
  // Whoever took it is about to write it.
  for (Backoff backoff; busy.woken && busy.barrier->state.load() == Barrier::asked;) backoff.pause();
  if (has_passed(*busy.barrier)) busy.queue->idle_at.store(busy.barrier->position, std::memory_order_release);
  give_back(busy.barrier);
}

Poll HipDevice::failed(std::string* what) {
  *what = status_text(hip::sticky_error());
  return Poll::failed;
}

Poll HipDevice::idle(std::string* what) {
  if (hip::sticky_error() != 0) return failed(what);
  while (!busy_.empty()) {
    Busy& next = busy_.back();
    if (!has_passed(*next.barrier)) {
      *what = trouble_.empty() ? stream_text(next.queue) : trouble_;
      for (Busy& busy : busy_)
        if (busy.woken && trouble_.empty() && busy.barrier->state.load() == Barrier::asked) ask(busy);
      return Poll::pending;
    }
    settle(next);
    busy_.pop_back();
  }
  if (!trouble_.empty()) {
    *what = trouble_;
    return Poll::pending;
  }
  if (copies::all_done()) return Poll::done;
  *what = "a copy";
  return Poll::pending;
}

// The mark is its thread's own: with --on-fault the gate may open while it is waited for.
bool HipDevice::mark(const Launch&) {
  Batch* own = Batch::here();
  if (mark_here != nullptr) give_back(mark_here);
  mark_here = take_barrier();
  return own != nullptr && mark_here != nullptr && own->write_barrier(mark_here);
}

Poll HipDevice::passed(std::string* what) {
  if (hip::sticky_error() != 0) return failed(what);
  return has_passed(*mark_here) ? Poll::done : Poll::pending;
}

void HipDevice::mark_begin(const Launch& launch, RowNumber row) noexcept {
  Batch* own = Batch::here();
  Signal before{}, after{};
  if (own != nullptr && own->has_room() && times::begin(launch, row, &before, &after))
    own->time_with(before, after);
}

void HipDevice::mark_end(const Launch&) noexcept {
  times::end();
}

bool HipDevice::next_time(RowNumber* row, Span* span) noexcept {
  return times::next(row, span);
}

}  // namespace kerncap::hip
