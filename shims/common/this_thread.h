// What a hooked call reads and writes of its thread, in as few cache lines as can be: between two launches
// the program fills the cache, and each of these lines has to be fetched again.
#ifndef KERNCAP_COMMON_THIS_THREAD_H
#define KERNCAP_COMMON_THIS_THREAD_H

#include <atomic>
#include <cstdint>

// Of a variable that each hooked call reads and hardly any writes: they lie beside each other.
#define KERNCAP_READ_BY_EACH_CALL __attribute__((section("kerncap_each_call")))

namespace kerncap {

struct Kernel;

enum class Waiting : uint8_t { no, yes, may_pass };  // at the gate

// One of a thread's last launches (last_launches.h). Every field is atomic: a reader may meet the writer.
// `number` is written first as "being written" and last as the launch's own, so that a torn entry is left
// out.
struct alignas(64) LaunchEntry {
  std::atomic<uint64_t> number{0};  // from 1
  std::atomic<const Kernel*> kernel{nullptr};
  std::atomic<void*> stream{nullptr};
  std::atomic<uint64_t> grid_xy{0}, grid_z_block_x{0}, block_yz{0};
};

// What other threads read of a thread, with no lock. Never freed: a thread that ends leaves it to the next
// one.
struct alignas(64) ThreadLine {
  static constexpr uint64_t kept_launches = 64;

  std::atomic<uint32_t> inside{0};  // of a driver call behind the gate
  std::atomic<bool> taken{false};
  std::atomic<Waiting> waiting{Waiting::no};
  std::atomic<int> thread{0};  // both of who waits
  std::atomic<const Kernel*> kernel{nullptr};
  ThreadLine* next = nullptr;
  uint64_t left_launches = 0;           // ThisThread::launches of the thread that ended
  LaunchEntry launches[kept_launches];  // a ring
};

// glibc loads no library into a running process whose thread-local memory is aligned to more than its own.
#if defined(__x86_64__)
#define KERNCAP_THREAD_LOCAL_ALIGNMENT 64
#else
#define KERNCAP_THREAD_LOCAL_ALIGNMENT 16
#endif

// Plain data: no guard, no destructor order to get wrong while a thread ends.
struct alignas(KERNCAP_THREAD_LOCAL_ALIGNMENT) ThisThread {
  ThreadLine* line;        // null: not needed yet, or memory is short
  uint32_t depth;          // of gate::Pass
  uint32_t own;            // of gate::Own
  uint32_t closer;         // 1: it has closed the gate
  uint32_t calls;          // hooked calls that it is inside of
  uint32_t until_clock;    // launches before the clock is read again
  bool has_called;         // a hooked function
  uint64_t clock_ns;       // when it was read last
  uint64_t launches;       // that its line's ring was given
  uint64_t launch_number;  // of the last one
};
extern __thread ThisThread this_thread;

// The calling thread's line; null if memory is short.
ThreadLine* take_line() noexcept;
inline ThreadLine* own_line() noexcept {
  return __builtin_expect(this_thread.line != nullptr, 1) ? this_thread.line : take_line();
}
// The first of all lines; each leads to the next.
ThreadLine* first_line() noexcept;

// In the child: the other threads are not there, their lines are free.
void free_lines_after_fork() noexcept;

}  // namespace kerncap

#endif  // KERNCAP_COMMON_THIS_THREAD_H
