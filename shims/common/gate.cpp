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
namespace {

constexpr uint64_t serve_every_ns = 200000;

enum class Waiting : uint8_t { no, yes, may_pass };

// One per thread, on a cache line of its own. Never freed: who closes the gate walks them with no
// lock. A thread that ends leaves its line to the next one.
struct alignas(64) Line {
  std::atomic<uint32_t> inside{0};
  std::atomic<bool> taken{false};
  std::atomic<Waiting> waiting{Waiting::no};
  std::atomic<int> thread{0};  // both of who waits
  std::atomic<const Kernel*> kernel{nullptr};
  Line* next = nullptr;
};

std::atomic<Line*> all_lines{nullptr};
std::atomic<uint32_t> closed{0};  // 1 while a thread has the gate closed; waited on with futex

// Plain data: no guard, no destructor order to get wrong while a thread ends.
struct ThreadState {
  Line* line;
  uint32_t depth;
  uint32_t own;
  bool closer;
  Serving::Serve serve;
  void* served;
};
thread_local ThreadState state;

// Hands the line back when the thread ends.
struct Leaver {
  bool armed = false;
  ~Leaver() {
    if (state.line == nullptr) return;
    state.line->inside.store(0, std::memory_order_release);
    state.line->taken.store(false, std::memory_order_release);
    state.line = nullptr;
  }
};
thread_local Leaver leaver;

void wait_while_closed(uint64_t deadline_ns) noexcept {
  KeepErrno keep;
  uint64_t now = now_ns();
  uint64_t left = deadline_ns == UINT64_MAX ? second_ns : deadline_ns > now ? deadline_ns - now : 0;
  if (state.serve != nullptr) {
    state.serve(state.served);
    left = left < serve_every_ns ? left : serve_every_ns;
  }
  timespec timeout = as_timespec(left);
  // A second at most: a wake-up lost to a fork or a killed thread must not stop the target.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&closed), FUTEX_WAIT_PRIVATE, 1, &timeout, nullptr, 0);
}

Line* take_line() noexcept {
  leaver.armed = true;  // its construction registers the thread's end
  for (Line* line = all_lines.load(std::memory_order_acquire); line != nullptr; line = line->next) {
    bool free = false;
    if (!line->taken.load(std::memory_order_relaxed) &&
        line->taken.compare_exchange_strong(free, true, std::memory_order_acq_rel))
      return line;
  }
  Line* line = new (std::nothrow) Line;
  if (line == nullptr) return nullptr;
  line->taken.store(true, std::memory_order_relaxed);
  line->next = all_lines.load(std::memory_order_relaxed);
  while (!all_lines.compare_exchange_weak(line->next, line, std::memory_order_acq_rel)) {
  }
  return line;
}

bool everybody_left() noexcept {
  for (Line* line = all_lines.load(std::memory_order_acquire); line != nullptr; line = line->next)
    if (line != state.line && line->inside.load(std::memory_order_seq_cst) != 0) return false;
  return true;
}

// Of a thread that found the gate closed: whether it was let through.
bool may_pass(Line* line, const Kernel* kernel) noexcept {
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

Waiter waiter_of(const Line& line) noexcept {
  return {line.thread.load(std::memory_order_relaxed), line.kernel.load(std::memory_order_relaxed)};
}

}  // namespace

Pass::Pass(Serve serve, void* context, const Kernel* kernel) noexcept {
  if (state.closer || state.own != 0) return;
  counted_ = true;
  if (state.depth++ != 0) return;
  if (state.line == nullptr) state.line = take_line();
  Line* line = state.line;
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
      Serving serving(serve, context);
      wait_while_closed(UINT64_MAX);
    }
  }
}

Pass::~Pass() noexcept {
  if (!counted_ || --state.depth != 0 || state.line == nullptr) return;
  state.line->inside.store(0, std::memory_order_release);
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
  state.closer = true;
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
  if (!state.closer) return;
  KeepErrno keep;
  state.closer = false;
  closed.store(0, std::memory_order_seq_cst);
  wake_all();
}

bool first_waiter(Waiter* who) noexcept {
  for (Line* line = all_lines.load(std::memory_order_acquire); line != nullptr; line = line->next) {
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
  Line* chosen = nullptr;
  for (Line* line = all_lines.load(std::memory_order_acquire); line != nullptr; line = line->next) {
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
  for (Line* line = all_lines.load(std::memory_order_acquire); line != nullptr; line = line->next) {
    Waiting expected = Waiting::may_pass;
    line->waiting.compare_exchange_strong(expected, Waiting::yes, std::memory_order_seq_cst);
  }
  return everybody_left();
}

bool is_mine() noexcept {
  return state.closer;
}

void hand_over() noexcept {
  state.closer = false;
}

void take_over() noexcept {
  state.closer = true;
}

void reset_after_fork() noexcept {
  // The other threads are not in the child; their lines are free.
  for (Line* line = all_lines.load(std::memory_order_acquire); line != nullptr; line = line->next) {
    line->inside.store(0, std::memory_order_relaxed);
    line->waiting.store(Waiting::no, std::memory_order_relaxed);
    line->taken.store(line == state.line, std::memory_order_relaxed);
  }
  state.closer = false;
  state.depth = 0;
  closed.store(0, std::memory_order_seq_cst);
}

Serving::Serving(Serve serve, void* context) noexcept
    : serve_before_(state.serve), context_before_(state.served) {
  state.serve = serve;
  state.served = context;
}

Serving::~Serving() noexcept {
  state.serve = serve_before_;
  state.served = context_before_;
}

Own::Own() noexcept {
  ++state.own;
}
Own::~Own() noexcept {
  --state.own;
}
bool Own::active() noexcept {
  return state.own != 0;
}

}  // namespace kerncap::gate
