#include <atomic>
#include <thread>

#include "check.h"
#include "common/clock.h"
#include "cuda/torch_mirror.h"

using namespace kerncap;
namespace mirror = kerncap::cuda::torch_mirror;

CASE(mirror_without_torch_asks_nobody) {
  uint64_t started = now_ns();
  CHECK(mirror::blocks(10 * second_ns).empty());
  CHECK(now_ns() - started < 5 * second_ns);
}

CASE(mirror_is_answered_by_the_waiting_thread) {
  std::thread hook([] {
    while (uint64_t request = mirror::wait()) {
      const unsigned long long triples[] = {4096, 512, 1, 8192, 1024, 0};
      mirror::answer(request + 1, triples, 1);  // not the one that was asked
      mirror::answer(request, triples, 2);
      mirror::answer(request, triples, 1);  // late
    }
  });
  std::vector<uint64_t> blocks;
  while (blocks.empty()) blocks = mirror::blocks(second_ns);  // the thread may not wait yet
  CHECK((blocks == std::vector<uint64_t>{4096, 512, 1, 8192, 1024, 0}));
  for (int i = 0; i < 50; ++i) mirror::blocks(second_ns);
  mirror::end();
  hook.join();
  CHECK(mirror::blocks(second_ns).empty());
}

CASE(mirror_asks_nobody_who_has_no_time_to_answer) {
  std::atomic<bool> asked{false};
  std::thread hook([&] {
    if (mirror::wait() != 0) asked.store(true);
  });
  for (int i = 0; i < 50; ++i) CHECK(mirror::blocks(0).empty());
  mirror::end();
  hook.join();
  CHECK(!asked.load());
}

CASE(mirror_gives_up_at_the_deadline) {
  std::atomic<bool> asked{false};
  std::thread hook([&] {
    while (mirror::wait() != 0) asked.store(true);  // never answers: somebody holds the GIL
  });
  while (!asked.load()) CHECK(mirror::blocks(1000000).empty());
  mirror::end();
  hook.join();
}

CASE(mirror_offer_is_for_the_next_capture_of_its_thread) {
  const unsigned long long triples[] = {1, 2, 1};
  mirror::offer(triples, 1);
  std::thread([] { CHECK(mirror::blocks(1000000).empty()); }).join();
  CHECK((mirror::blocks(second_ns) == std::vector<uint64_t>{1, 2, 1}));
  CHECK(mirror::blocks(1000000).empty());
  mirror::offer(triples, 1);
  mirror::offer(triples, -1);
  CHECK(mirror::blocks(1000000).empty());
}
