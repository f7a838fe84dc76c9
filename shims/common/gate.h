// The gate: while it is closed, other threads' launches, copies and frees wait; synchronising calls
// and host callbacks never do.
//
// It is no lock: nothing is held across a driver call. A thread passes by counting itself in and
// out around its driver call; who closes the gate waits, with a deadline, until the count is zero.
// Open, a pass costs two plain stores to a line of the thread's own: the fence between the first of them and
// its look at the gate is made for all threads at once, by who closes it (membarrier).
#ifndef KERNCAP_COMMON_GATE_H
#define KERNCAP_COMMON_GATE_H

#include <atomic>
#include <cstdint>
#include <string>

#include "common/this_thread.h"

namespace kerncap::gate {

namespace detail {
extern std::atomic<uint32_t> closed;    // 1 while a thread has the gate closed; waited on with futex
extern std::atomic<bool> needs_fences;  // the kernel has no membarrier for us
}  // namespace detail

// Around the driver call of a gated function. Waits while another thread has the gate closed; the
// thread that closed it, and calls that the shim makes itself, pass at once. Nesting is fine.
class Pass {
 public:
  using Serve = void (*)(void* context) noexcept;
  // The kernel that is launched, if it is a launch.
  explicit Pass(const Kernel* kernel = nullptr) noexcept : Pass(nullptr, nullptr, kernel) {}
  // While it waits, it calls `serve` as in a Serving.
  Pass(Serve serve, void* context, const Kernel* kernel = nullptr) noexcept {
    ThisThread& here = this_thread;
    if ((here.closer | here.own) != 0) return;
    counted_ = true;
    if (here.depth++ != 0) return;
    if (__builtin_expect(here.line != nullptr && !detail::needs_fences.load(std::memory_order_acquire), 1)) {
      here.line->inside.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler's part; see close()
      if (__builtin_expect(detail::closed.load(std::memory_order_acquire) == 0, 1)) return;
    }
    enter(serve, context, kernel);
  }
  ~Pass() noexcept {
    ThisThread& here = this_thread;
    if (counted_ && --here.depth == 0 && here.line != nullptr)
      here.line->inside.store(0, std::memory_order_release);
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

 private:
  static void enter(Serve serve, void* context, const Kernel* kernel) noexcept;

  bool counted_ = false;
};

// Closes the gate for the calling thread (which must hold no Pass) and waits until every other
// thread has left its driver call. False, and open again, past the deadline: a call that blocks in
// the driver must not stop the target. One closer at a time; another waits its turn, also with the
// deadline.
bool close(uint64_t deadline_ns) noexcept;
void open() noexcept;
bool is_mine() noexcept;
// A thread that waits at the gate; the kernel that it launches, null for another call.
struct Waiter {
  int thread = 0;
  const Kernel* kernel = nullptr;
};
bool first_waiter(Waiter* who) noexcept;
std::string text_of(const Waiter& who);  // "the launch of k in thread 7"
// For who has it closed: one that waits passes, as the device may wait for what it does. False: none waits,
// or the last one is still to come.
bool let_one_through(Waiter* who) noexcept;
// None is to come any more; whether all that were let through have left their driver calls.
bool all_have_left() noexcept;
// The closed gate becomes another thread's, which takes it over before it does anything else.
void hand_over() noexcept;
void take_over() noexcept;

// While a thread waits at the gate or for its turn to close it, within this scope, it calls `serve` every
// now and then: who closed the gate may need what only this thread can give (shims/hip/queues.h).
class Serving {
 public:
  using Serve = void (*)(void* context) noexcept;
  Serving(Serve serve, void* context) noexcept;
  ~Serving() noexcept;
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  Serve serve_before_;
  void* context_before_;
};

// After fork, in the child: open, with no thread inside.
void reset_after_fork() noexcept;

// True between these two on this thread: driver calls that the shim makes are not hooked, gated or
// counted.
class Own {
 public:
  Own() noexcept { ++this_thread.own; }
  ~Own() noexcept { --this_thread.own; }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  static bool active() noexcept { return this_thread.own != 0; }
};

}  // namespace kerncap::gate

#endif  // KERNCAP_COMMON_GATE_H
