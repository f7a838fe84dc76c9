#include "common/glibc_floor.h"

#include "common/gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <new>

#include "common/clock.h"
#include "common/launch.h"

namespace kerncap::gate {

KERNCAP_READ_BY_EACH_CALL std::atomic<uint32_t> detail::closed{0};
KERNCAP_READ_BY_EACH_CALL std::atomic<bool> detail::needs_fences{true};

namespace {

// Of the scope of a Serving.
struct Served {
  Serving::Serve serve;
  void* served;
};
thread_local Served serving;

constexpr uint64_t serve_every_ns = 200000;

using detail::closed;

// Source: linux/membarrier.h; since Linux 4.14.
constexpr int private_expedited = 1 << 3, register_private_expedited = 1 << 4;

// A full fence on every thread of this process that runs. False: the kernel refuses.
bool fence_all_threads() noexcept {
  return syscall(SYS_membarrier, private_expedited, 0) == 0;
}

// From then on who passes needs no fence of its own. At the first pass of the process: where there are
// threads already it takes the kernel some milliseconds.
void leave_fences_to_closer() noexcept {
  KeepErrno keep;
  bool is_registered = syscall(SYS_membarrier, register_private_expedited, 0) == 0 && fence_all_threads();
  detail::needs_fences.store(!is_registered, std::memory_order_seq_cst);
}

void wait_while_closed(uint64_t deadline_ns) noexcept {
  KeepErrno keep;
  uint64_t now = now_ns();
  uint64_t left = deadline_ns == UINT64_MAX ? second_ns : deadline_ns > now ? deadline_ns - now : 0;
  if (serving.serve != nullptr) {
    serving.serve(serving.served);
    left = left < serve_every_ns ? left : serve_every_ns;
  }
  timespec timeout = as_timespec(left);
  // A second at most: a wake-up lost to a fork or a killed thread must not stop the target.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&closed), FUTEX_WAIT_PRIVATE, 1, &timeout, nullptr, 0);
}

bool everybody_left() noexcept {
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next)
    if (line != this_thread.line && line->inside.load(std::memory_order_seq_cst) != 0) return false;
  return true;
}

// Of a thread that found the gate closed: whether it was let through.
bool may_pass(ThreadLine* line, const Kernel* kernel) noexcept {
  if (line == nullptr) return false;
  const Waiting now = line->waiting.load(std::memory_order_seq_cst);
  if (now == Waiting::no) {
    line->thread.store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_relaxed);
    line->kernel.store(kernel, std::memory_order_relaxed);
    line->waiting.store(Waiting::yes, std::memory_order_seq_cst);
  }
  return now == Waiting::may_pass;
}

void wake_all() noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&closed), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

Waiter waiter_of(const ThreadLine& line) noexcept {
  return {line.thread.load(std::memory_order_relaxed), line.kernel.load(std::memory_order_relaxed)};
}

}  // namespace

// The gate is closed, or the thread's first pass, or fences are needed.
void Pass::enter(Serve serve, void* context, const Kernel* kernel) noexcept {
  static std::atomic<bool> is_tried{false};
  if (!is_tried.exchange(true, std::memory_order_relaxed)) leave_fences_to_closer();
  ThreadLine* line = own_line();
  for (bool has_waited = false;; has_waited = true) {
    // First in, then look; the closer closes first, then looks: one of both sees the other. That
    // needs one order of all four accesses.
    if (line != nullptr) line->inside.store(1, std::memory_order_seq_cst);
    if (closed.load(std::memory_order_seq_cst) == 0 || may_pass(line, kernel)) {
      if (has_waited && line != nullptr) line->waiting.store(Waiting::no, std::memory_order_seq_cst);
      return;
    }
    if (line != nullptr) line->inside.store(0, std::memory_order_seq_cst);
    if (serve == nullptr) {
      wait_while_closed(UINT64_MAX);
    } else {
      Serving within(serve, context);
      wait_while_closed(UINT64_MAX);
    }
  }
}

bool close(uint64_t deadline_ns) noexcept {
  KeepErrno keep;
  uint64_t deadline = now_ns() + deadline_ns;
  uint32_t expected = 0;
  while (!closed.compare_exchange_strong(expected, 1, std::memory_order_seq_cst)) {
    if (now_ns() >= deadline) return false;
    wait_while_closed(deadline);
    expected = 0;
  }
  this_thread.closer = 1;
  // A thread that counted itself in before this shows now; one that did not finds the gate closed.
  if (!detail::needs_fences.load(std::memory_order_seq_cst) && !fence_all_threads()) {
    open();
    return false;
  }
  Backoff backoff;
  while (!everybody_left()) {
    if (now_ns() >= deadline) {
      open();
      return false;
    }
    backoff.pause();
  }
  return true;
}

void open() noexcept {
  if (!this_thread.closer) return;
  KeepErrno keep;
  this_thread.closer = 0;
  closed.store(0, std::memory_order_seq_cst);
  wake_all();
}

bool first_waiter(Waiter* who) noexcept {
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next) {
    if (line->waiting.load(std::memory_order_seq_cst) != Waiting::yes) continue;
    *who = waiter_of(*line);
    return true;
  }
  return false;
}

std::string text_of(const Waiter& who) {
  return (who.kernel != nullptr ? "the launch of " + who.kernel->demangled : std::string("a call")) +
         " in thread " + std::to_string(who.thread);
}

bool let_one_through(Waiter* who) noexcept {
  KeepErrno keep;
  ThreadLine* chosen = nullptr;
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next) {
    const Waiting now = line->waiting.load(std::memory_order_seq_cst);
    if (now == Waiting::may_pass) {
      wake_all();  // it was about to sleep when it was woken
      return false;
    }
    if (now == Waiting::yes && chosen == nullptr) chosen = line;
  }
  if (chosen == nullptr) return false;
  *who = waiter_of(*chosen);
  Waiting expected = Waiting::yes;
  if (!chosen->waiting.compare_exchange_strong(expected, Waiting::may_pass, std::memory_order_seq_cst))
    return false;
  wake_all();
  return true;
}

bool all_have_left() noexcept {
  // Who finds that it may pass has counted itself in before.
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next) {
    Waiting expected = Waiting::may_pass;
    line->waiting.compare_exchange_strong(expected, Waiting::yes, std::memory_order_seq_cst);
  }
  return everybody_left();
}

bool is_mine() noexcept {
  return this_thread.closer;
}

void hand_over() noexcept {
  this_thread.closer = 0;
}

void take_over() noexcept {
  this_thread.closer = 1;
}

void reset_after_fork() noexcept {
  free_lines_after_fork();
  this_thread.closer = 0;
  this_thread.depth = 0;
  closed.store(0, std::memory_order_seq_cst);
  if (!detail::needs_fences.load(std::memory_order_relaxed)) leave_fences_to_closer();
}

Serving::Serving(Serve serve, void* context) noexcept
    : serve_before_(serving.serve), context_before_(serving.served) {
  serving.serve = serve;
  serving.served = context;
}

Serving::~Serving() noexcept {
  serving.serve = serve_before_;
  serving.served = context_before_;
}

}  // namespace kerncap::gate
