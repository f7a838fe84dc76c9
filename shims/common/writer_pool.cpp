#include "common/glibc_floor.h"

#include "common/writer_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "common/clock.h"

namespace kerncap {
namespace {

constexpr size_t max_writers = 12;
constexpr size_t slots = Device::ring_buffers;
constexpr uint64_t stuck_ns = 60 * second_ns;  // no piece moved for so long: the device is gone
constexpr size_t thread_stack_bytes = 256 * 1024;

// std::condition_variable would need a newer glibc than we allow.
class Signal {
 public:
  Signal() noexcept {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  void wait(std::unique_lock<std::mutex>& lock) noexcept {
    pthread_cond_wait(&condition_, lock.mutex()->native_handle());
  }
  void wait_until(std::unique_lock<std::mutex>& lock, uint64_t deadline_ns) noexcept {
    timespec deadline = as_timespec(deadline_ns);
    pthread_cond_timedwait(&condition_, lock.mutex()->native_handle(), &deadline);
  }
  void notify_one() noexcept { pthread_cond_signal(&condition_); }

 private:
  pthread_cond_t condition_;
};

enum class SlotState : uint8_t { free, copying, queued, working, freed };

struct Slot {
  SlotState state = SlotState::free;
  Piece piece;
  const uint8_t* bytes = nullptr;
};

// One pump at a time uses it: the gate sees to that.
struct Pool {
  std::mutex mutex;
  Signal work_came, slot_freed;
  Slot slot[slots];
  size_t queue[slots] = {};
  size_t queue_head = 0, queued = 0;
  Pieces* pieces = nullptr;
  bool stopped = false;
  size_t threads = 0;
};

Pool& pool() noexcept {
  alignas(Pool) static char storage[sizeof(Pool)];
  static Pool* made = new (storage) Pool;
  return *made;
}

// Takes the oldest queued slot and works on it; the lock is held on entry and return.
bool work_one(Pool& p, std::unique_lock<std::mutex>& lock) noexcept {
  if (p.queued == 0) return false;
  Slot& slot = p.slot[p.queue[p.queue_head]];
  p.queue_head = (p.queue_head + 1) % slots;
  --p.queued;
  slot.state = SlotState::working;
  Pieces* pieces = p.pieces;
  bool stopped = p.stopped;
  lock.unlock();
  bool good = stopped || pieces->work(slot.piece, slot.bytes);
  lock.lock();
  if (!good) p.stopped = true;
  slot.state = SlotState::freed;
  p.slot_freed.notify_one();
  return true;
}

void* writer_loop(void*) {
  Pool& p = pool();
  std::unique_lock<std::mutex> lock(p.mutex);
  for (;;)
    if (!work_one(p, lock)) p.work_came.wait(lock);
  return nullptr;
}

// The calling thread's side: starts copies, queues what has come, counts what is done.
class Pump {
 public:
  Pump(Device& device, Pieces& pieces, Progress* progress)
      : device_(device), pieces_(pieces), progress_(progress) {}

  bool run(std::string* why) {
    {
      std::lock_guard<std::mutex> lock(pool_.mutex);
      pool_.pieces = &pieces_;
      pool_.stopped = false;
    }
    uint64_t last_move = now_ns();
    Backoff backoff;
    while (!finished()) {
      if (step(why)) {
        last_move = now_ns();
        backoff = Backoff();
      } else if (now_ns() - last_move > stuck_ns && copying_ > 0) {
        *why = "a copy did not finish within 60 s";
        abandon();
      } else {
        rest(backoff);
      }
    }
    std::lock_guard<std::mutex> lock(pool_.mutex);
    return !failed_ && !pool_.stopped;
  }

 private:
  bool finished() const { return outstanding_ == 0 && (ended_ || failed_); }

  bool step(std::string* why) {
    bool moved = collect();
    for (size_t i = 0; i < slots; ++i) {
      SlotState state = state_of(i);
      if (state == SlotState::copying) moved = arrived(i, why) || moved;
      if (state == SlotState::free && !ended_ && !failed_) moved = start(i, why) || moved;
    }
    return moved;
  }

  SlotState state_of(size_t i) {
    std::lock_guard<std::mutex> lock(pool_.mutex);
    if (pool_.stopped) ended_ = true;
    return pool_.slot[i].state;
  }

  // Takes slots back that a writer is done with.
  bool collect() {
    uint64_t bytes = 0;
    bool any = false;
    {
      std::lock_guard<std::mutex> lock(pool_.mutex);
      for (Slot& slot : pool_.slot) {
        if (slot.state != SlotState::freed) continue;
        slot.state = SlotState::free;
        bytes += slot.piece.size;
        --outstanding_;
        any = true;
      }
    }
    if (any && progress_ != nullptr) progress_->done(bytes);
    return any;
  }

  bool start(size_t i, std::string* why) {
    Slot& slot = pool_.slot[i];
    if (!pieces_.next(&slot.piece)) {
      ended_ = true;
      return false;
    }
    ++outstanding_;
    const Piece& piece = slot.piece;
    if (piece.direct) {
      slot.bytes = reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(piece.address));
      enqueue(i);
      return true;
    }
    slot.bytes = device_.buffer(i);
    if (!device_.start_read(i, piece.device, piece.address, piece.size)) {
      fail(i, why);
      return true;
    }
    ++copying_;
    std::lock_guard<std::mutex> lock(pool_.mutex);
    slot.state = SlotState::copying;
    return true;
  }

  bool arrived(size_t i, std::string* why) {
    Poll poll = device_.poll(i);
    if (poll == Poll::pending) return false;
    --copying_;
    if (poll == Poll::done)
      enqueue(i);
    else
      fail(i, why);
    return true;
  }

  void enqueue(size_t i) {
    std::lock_guard<std::mutex> lock(pool_.mutex);
    pool_.slot[i].state = SlotState::queued;
    pool_.queue[(pool_.queue_head + pool_.queued++) % slots] = i;
    pool_.work_came.notify_one();
  }

  void fail(size_t i, std::string* why) {
    if (why->empty()) *why = device_.error_text(device_.status());
    failed_ = true;
    --outstanding_;
    std::lock_guard<std::mutex> lock(pool_.mutex);
    pool_.slot[i].state = SlotState::free;
  }

  // The buffers of copies that never end must not be used again by mistake; nothing more will be copied.
  void abandon() {
    failed_ = true;
    outstanding_ -= copying_;
    copying_ = 0;
    std::lock_guard<std::mutex> lock(pool_.mutex);
    for (Slot& slot : pool_.slot)
      if (slot.state == SlotState::copying) slot.state = SlotState::free;
  }

  void rest(Backoff& backoff) {
    std::unique_lock<std::mutex> lock(pool_.mutex);
    if (pool_.threads == 0 && work_one(pool_, lock)) return;
    for (const Slot& slot : pool_.slot)
      if (slot.state == SlotState::freed) return;
    if (copying_ > 0) {
      lock.unlock();
      backoff.pause();
    } else if (outstanding_ > 0) {
      pool_.slot_freed.wait_until(lock, now_ns() + second_ns);
    }
  }

  Device& device_;
  Pieces& pieces_;
  Progress* progress_;
  Pool& pool_ = pool();
  size_t outstanding_ = 0, copying_ = 0;
  bool ended_ = false, failed_ = false;
};

}  // namespace

size_t writer_count() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::clamp<size_t>(static_cast<size_t>(cores) * 3 / 4, 1, max_writers);
}

void start_writers() noexcept {
  KeepErrno keep;
  Pool& p = pool();
  std::unique_lock<std::mutex> lock(p.mutex);
  size_t wanted = writer_count();
  if (p.threads >= wanted) return;
  // The target's signals are for the target's threads. (By the system call: the library's function
  // has a newer version on a new glibc.)
  uint64_t all = ~uint64_t{0}, before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, thread_stack_bytes);
  pthread_t thread;
  while (p.threads < wanted && pthread_create(&thread, &attributes, writer_loop, nullptr) == 0) ++p.threads;
  pthread_attr_destroy(&attributes);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof all);
}

void reset_writers_after_fork() noexcept {
  new (&pool()) Pool;
}

bool pump(Device& device, Pieces& pieces, Progress* progress, std::string* why) {
  return Pump(device, pieces, progress).run(why);
}

}  // namespace kerncap
