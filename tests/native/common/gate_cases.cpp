#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"
#include "common/clock.h"
#include "common/gate.h"
#include "common/launch.h"

using namespace kerncap;

// While the gate is closed nobody but the closer touches what Passes guard; a plain variable shows a
// sanitizer where that does not hold.
static void exclude_eight_threads() {
  long guarded[8] = {};  // each thread's own, read by the closer
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      while (!stop.load(std::memory_order_relaxed)) {
        gate::Pass pass;
        gate::Pass nested;
        ++guarded[i];
      }
    });
  for (int round = 0; round < 200; ++round) {
    CHECK(gate::close(10 * second_ns));
    CHECK(gate::is_mine());
    long before[8];
    for (int i = 0; i < 8; ++i) before[i] = guarded[i];
    gate::Pass of_the_closer;
    std::this_thread::yield();
    for (int i = 0; i < 8; ++i) CHECK(before[i] == guarded[i]);
    gate::open();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  CHECK(!gate::is_mine());
}

CASE(gate_excludes_eight_threads) {
  exclude_eight_threads();
}

// Where the kernel has no membarrier each thread makes its own fence.
CASE(gate_excludes_eight_threads_with_fences_of_their_own) {
  {
    gate::Pass tried;
  }
  gate::detail::needs_fences.store(true);
  exclude_eight_threads();
}

CASE(gate_leaves_fences_to_who_closes_it) {
  constexpr long query = 0, private_expedited = 1 << 3;
  const long known = syscall(SYS_membarrier, query, 0);
  {
    gate::Pass first;
  }
  CHECK(gate::detail::needs_fences.load() == (known < 0 || (known & private_expedited) == 0));
}

// Of two that wait one passes, and is waited for; the other stays until the gate opens.
CASE(gate_lets_one_through) {
  std::atomic<int> passed{0};
  std::atomic<bool> may_leave{false};
  CHECK(gate::close(10 * second_ns));
  Kernel kernel;
  auto wait = [&] {
    gate::Pass pass(&kernel);
    passed.fetch_add(1);
    while (!may_leave.load()) std::this_thread::yield();
  };
  gate::Waiter who;
  CHECK(!gate::let_one_through(&who) && !gate::first_waiter(&who));
  std::thread first(wait);
  while (!gate::let_one_through(&who)) std::this_thread::yield();
  CHECK(who.kernel == &kernel && who.thread != 0);
  while (passed.load() != 1) {
    gate::Waiter other;
    CHECK(!gate::let_one_through(&other));
    std::this_thread::yield();
  }
  std::thread second(wait);
  while (!gate::first_waiter(&who)) std::this_thread::yield();
  CHECK(!gate::all_have_left());
  may_leave.store(true);
  first.join();
  CHECK(gate::all_have_left() && passed.load() == 1);
  gate::open();
  second.join();
  CHECK(passed.load() == 2);
}

// The gate is closed from one thread to the next.
CASE(gate_is_handed_over) {
  CHECK(gate::close(10 * second_ns));
  gate::hand_over();
  CHECK(!gate::is_mine() && !gate::close(1000000));
  std::thread owner([] {
    gate::take_over();
    CHECK(gate::is_mine());
    gate::open();
  });
  owner.join();
  CHECK(gate::close(10 * second_ns));
  gate::open();
}

CASE(gate_opens_again_past_the_deadline) {
  std::atomic<int> step{0};
  std::thread blocked([&] {
    gate::Pass pass;
    step.store(1);
    while (step.load() != 2) std::this_thread::yield();
  });
  while (step.load() != 1) std::this_thread::yield();
  CHECK(!gate::close(1000000));
  CHECK(!gate::is_mine());
  {
    gate::Pass passes_at_once;
  }
  step.store(2);
  blocked.join();
  CHECK(gate::close(10 * second_ns));
  gate::open();
}

CASE(gate_takes_one_closer_at_a_time) {
  std::atomic<int> inside{0}, closed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        CHECK(gate::close(20 * second_ns));
        CHECK(inside.fetch_add(1) == 0);
        inside.fetch_sub(1);
        closed.fetch_add(1);
        gate::open();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(closed.load() == 200);
}

CASE(gate_forgets_threads_that_ended) {
  for (int i = 0; i < 50; ++i) std::thread([] { gate::Pass pass; }).join();
  // One that ends without leaving its driver call, as a cancelled thread does.
  pthread_t thread;
  auto body = [](void*) -> void* {
    alignas(gate::Pass) static thread_local char room[sizeof(gate::Pass)];
    new (room) gate::Pass;
    return nullptr;
  };
  CHECK(pthread_create(&thread, nullptr, body, nullptr) == 0);
  pthread_join(thread, nullptr);
  CHECK(gate::close(10 * second_ns));
  gate::open();
}

CASE(gate_is_open_in_a_forked_child) {
  std::atomic<int> step{0};
  std::thread inside([&] {
    gate::Pass pass;
    step.store(1);
    while (step.load() != 2) std::this_thread::yield();
  });
  while (step.load() != 1) std::this_thread::yield();
  pid_t child = fork();
  if (child == 0) {
    gate::reset_after_fork();
    bool good = gate::close(second_ns);  // the other thread is not in the child
    gate::open();
    {
      gate::Pass pass;
    }
    _exit(good ? 0 : 1);
  }
  step.store(2);
  inside.join();
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CASE(gate_lets_its_own_calls_through) {
  CHECK(!gate::Own::active());
  gate::Own own;
  CHECK(gate::Own::active());
  gate::Pass pass;
}

// A figure for the reader, no bound: machines differ.
CASE(gate_pass_cost) {
  constexpr int passes = 2000000;
  uint64_t started = now_ns();
  for (int i = 0; i < passes; ++i) gate::Pass pass;
  std::printf("a pass costs %.1f ns\n", static_cast<double>(now_ns() - started) / passes);
}
