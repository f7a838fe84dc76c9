// Captures out of queues; what came of them, tests/native/test_hip.py reads in the records.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "hip/queues.h"
#include "runtime.h"

extern "C" bool OnLoad(kerncap::hip::ApiTable* tables, uint64_t, uint64_t, const char* const*);

using namespace kerncap::hip;
using namespace runtime;

namespace {

// A kernel over `float* data`: what it does is the case's.
// As on a device: two queues may run it at once, and one of the two results stays.
template <class F>
void change(const DispatchPacket& packet, F f) {
  float* at = *static_cast<float**>(packet.kernarg_address);
  float now = 0;
  __atomic_load(at, &now, __ATOMIC_RELAXED);
  float next = f(now);
  __atomic_store(at, &next, __ATOMIC_RELAXED);
}

struct Program {
  KernelCode add{"_Z3addPf.kd", {}, 16};
  KernelCode other{"_Z5otherPf.kd", {}, 16};
  KernelCode copy{"__amd_rocclr_copyBuffer.kd", {}, 16};
  float* data = nullptr;
  float* arguments[2] = {};

  Program() {
    CHECK(OnLoad(tables(), 0, 0, nullptr));
    add.body = [](const DispatchPacket& packet) { change(packet, [](float x) { return x + 1; }); };
    other.body = [](const DispatchPacket& packet) { change(packet, [](float x) { return x * 2; }); };
    copy.body = other.body;
    load({&add, &other, &copy});
    data = allocate(1000);
    arguments[0] = data;
  }
};

bool is_same(const Packet& a, const Packet& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// The target's own packets must have come through, in order, whatever is between them.
void check_order(const std::vector<Packet>& all, const std::vector<Packet>& expected) {
  size_t next = 0;
  for (const Packet& packet : all)
    if (next < expected.size() && is_same(packet, expected[next])) ++next;
  CHECK(next == expected.size());
  size_t dispatches = 0, wanted = 0;
  for (const Packet& packet : all) dispatches += (packet.header & 0xff) == constant::packet_dispatch;
  for (const Packet& packet : expected) wanted += (packet.header & 0xff) == constant::packet_dispatch;
  CHECK(dispatches == wanted);
  for (const Packet& packet : all) CHECK(!is_wake_packet(packet));
}

}  // namespace

// A launch in the middle of a batch: 2 * (0 + 1) before, + 1, then * 2.
CASE(queue_chosen_in_the_middle_of_a_batch) {
  Program p;
  HsaQueue* queue = make_queue();
  Signal done = make_signal(2);
  std::vector<Packet> batch = {vendor_packet(1),
                               dispatch(p.other, p.arguments),
                               dispatch(p.copy, p.arguments),
                               vendor_packet(2),
                               dispatch(p.add, p.arguments, done),
                               vendor_packet(3),
                               dispatch(p.other, p.arguments, done)};
  p.data[0] = 3;
  submit(queue, batch);
  wait(done);
  wait_until_empty(queue);
  CHECK(p.data[0] == 26 && value_of(done) == 0);
  check_order(seen(queue), batch);
}

CASE(queue_without_a_barrier) {
  Program p;
  HsaQueue* queue = make_queue();
  Signal done = make_signal(1);
  Packet packet = dispatch(p.add, p.arguments, done);
  packet.header = constant::packet_dispatch;
  submit(queue, {packet});
  wait(done);
}

CASE(queue_one_packet_a_callback) {
  whole_batches = false;
  Program p;
  HsaQueue* queue = make_queue();
  Signal done = make_signal(40);
  std::vector<Packet> batch(40, dispatch(p.add, p.arguments, done));
  submit(queue, batch);
  wait(done);
  CHECK(p.data[0] == 40);
  check_order(seen(queue), batch);
}

// Threads with queues of their own, each captured now and then, while the others wait at the gate.
CASE(queue_others_wait_at_the_gate) {
  Program p;
  constexpr size_t count = 4, rounds = 60;
  std::vector<std::thread> threads;
  std::vector<float*> memory;
  for (size_t i = 0; i < count; ++i) memory.push_back(allocate(16));
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      HsaQueue* queue = make_queue();
      float* arguments[2] = {memory[i], nullptr};
      Signal done = make_signal(rounds);
      std::vector<Packet> all(rounds, dispatch(p.add, arguments, done));
      for (const Packet& packet : all) submit(queue, {packet});
      wait(done);
      wait_until_empty(queue);
      check_order(seen(queue), all);
      destroy_queue(queue);
    });
  for (std::thread& thread : threads) thread.join();
  for (float* values : memory) CHECK(values[0] == rounds);
}

// Another queue is at work and nobody is in its callback: it is woken, and waited for.
CASE(queue_at_work_is_waited_for) {
  Program p;
  HsaQueue *busy = make_queue(), *own = make_queue();
  p.other.body = [](const DispatchPacket& packet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    **static_cast<float**>(packet.kernarg_address) = 41;
  };
  Signal done = make_signal(2);
  submit(busy, {dispatch(p.other, p.arguments, done)});
  submit(own, {dispatch(p.add, p.arguments, done)});  // its pre-state has what the other one wrote
  wait(done);
  CHECK(p.data[0] == 42);
  wait_until_empty(busy);
  check_order(seen(busy), {dispatch(p.other, p.arguments, done)});
}

// Two threads share a queue: one is in its callback at the gate, the other one waits for its lock.
CASE(queue_shared_by_threads) {
  Program p;
  HsaQueue* shared = make_queue(256);
  std::vector<std::thread> threads;
  Signal done = make_signal(3 * 40);
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 40; ++round) submit(shared, {dispatch(p.add, p.arguments, done)});
    });
  for (std::thread& thread : threads) thread.join();
  wait(done);
  CHECK(p.data[0] == 120);
}

// A kernel that waits for the host keeps its queue busy past the deadline; nothing else is kept waiting.
CASE(queue_that_never_drains) {
  Program p;
  HsaQueue *stuck = make_queue(), *own = make_queue();
  std::atomic<bool> go{false};
  p.other.body = [&](const DispatchPacket&) {
    while (!go.load()) std::this_thread::yield();
  };
  Signal first = make_signal(1), second = make_signal(1), last = make_signal(1);
  submit(stuck, {dispatch(p.other, p.arguments, first)});
  submit(own, {dispatch(p.add, p.arguments, second)});
  wait(second);
  go.store(true);
  wait(first);
  wait_until_empty(stuck);
  submit(own, {dispatch(p.add, p.arguments, last)});
  wait(last);
  CHECK(p.data[0] == 2);
}

// The hardware's queue is full when the launch comes: its packets stay in order, and the next one is taken.
CASE(queue_that_is_full) {
  Program p;
  HsaQueue* queue = make_queue(16);
  std::atomic<bool> go{false};
  p.other.body = [&](const DispatchPacket&) {
    while (!go.load()) std::this_thread::yield();
  };
  std::vector<Packet> all = {dispatch(p.other, p.arguments)};
  for (uint64_t i = 0; i < 13; ++i) all.push_back(vendor_packet(i));
  Signal done = make_signal(1), last = make_signal(1);
  all.push_back(dispatch(p.add, p.arguments, done));
  submit(queue, {all.begin(), all.begin() + 14});
  submit(queue, {all[14]});
  CHECK(value_of(done) == 1);
  go.store(true);
  wait(done);
  wait_until_empty(queue);
  submit(queue, {dispatch(p.add, p.arguments, last)});
  wait(last);
  all.push_back(dispatch(p.add, p.arguments, last));
  wait_until_empty(queue);
  check_order(seen(queue), all);
}

// One producer alone: its ring can't be written to by us, and the capture says so.
CASE(queue_of_a_single_producer) {
  Program p;
  HsaQueue *single = make_queue(64, constant::queue_type_single), *own = make_queue();
  Signal done = make_signal(2);
  submit(single, {dispatch(p.other, p.arguments, done)});
  submit(own, {dispatch(p.add, p.arguments, done)});
  wait(done);
  CHECK(p.data[0] == 1);
}

CASE(queue_for_cooperative_launches) {
  Program p;
  HsaQueue* queue = make_queue(64, constant::queue_type_cooperative);
  Signal done = make_signal(1);
  submit(queue, {dispatch(p.add, p.arguments, done)});
  wait(done);
  wait_until_empty(queue);
  destroy_queue(queue);
}

CASE(queue_that_can_not_be_intercepted) {
  refuses_intercept = true;
  Program p;
  HsaQueue* plain = make_queue();
  refuses_intercept = false;
  HsaQueue* own = make_queue();
  Signal done = make_signal(1), seen_done = make_signal(1);
  submit(plain, {dispatch(p.other, p.arguments, done)});
  wait(done);
  submit(own, {dispatch(p.add, p.arguments, seen_done)});
  wait(seen_done);
}

// A copy that the target started goes on beside all queues.
CASE(queue_copy_under_way_is_waited_for) {
  Program p;
  HsaQueue* own = make_queue();
  copies_stand_still.store(true);
  Signal copied = make_signal(1), done = make_signal(1);
  float five = 5;
  using Copy = Status (*)(void*, Agent, const void*, Agent, size_t, uint32_t, const Signal*, Signal);
  call<Copy>("hsa_amd_memory_async_copy")(p.data, {2}, &five, {1}, sizeof five, 0, nullptr, copied);
  std::thread releaser([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    copies_stand_still.store(false);
  });
  submit(own, {dispatch(p.add, p.arguments, done)});  // its pre-state has what was copied
  wait(done);
  CHECK(p.data[0] == 6);
  releaser.join();
}

namespace {

constexpr uint16_t in_order = 1U << constant::header_barrier;

Packet barrier(Signal after, Signal done, uint16_t bits = in_order) {
  Packet packet{};
  packet.header = static_cast<uint16_t>(constant::packet_barrier_and | bits);
  packet.barrier.dep_signal[3] = after;
  packet.barrier.completion_signal = done;
  return packet;
}

Packet barrier_value(Signal after, uint32_t condition, SignalValue value, Signal done) {
  Packet packet{};
  packet.header = static_cast<uint16_t>(constant::packet_vendor | in_order);
  packet.barrier_value.format = constant::format_barrier_value;
  packet.barrier_value.signal = after;
  packet.barrier_value.condition = condition;
  packet.barrier_value.value = value;
  packet.barrier_value.mask = INT64_MAX;
  packet.barrier_value.completion_signal = done;
  return packet;
}

}  // namespace

// Launches in turns on two queues; what is between two of them, tests/native/test_hip.py reads.
CASE(queue_order_of_a_range) {
  Program p;
  HsaQueue *one = make_queue(), *other = make_queue();
  Packet launch = dispatch(p.add, p.arguments);
  Signal first = make_signal(1), second = make_signal(1), third = make_signal(2), fourth = make_signal(1);
  submit(one, {launch, barrier({}, first)});
  submit(other, {barrier(first, {}), launch});  // 1: waits for what follows 0
  call<void (*)(Signal, SignalValue)>("hsa_signal_store_relaxed")(first, 1);
  submit(one, {barrier(first, {}), launch});  // 2: it is another's by now
  submit(one, {barrier({}, second, 0)});
  submit(other, {barrier(second, {}), launch});  // 3: its packet need not follow 2
  submit(one, {barrier({}, third)});
  submit(other, {barrier(third, {}), launch});  // 4: something else completes it too
  submit(one, {barrier_value({}, 0, 0, fourth)});
  submit(other, {barrier_value(fourth, constant::condition_less, 1, {}), launch});  // 5: waits
  submit(other, {barrier_value(fourth, constant::condition_less, 2, {}), launch});  // 6: for nothing
  wait_until_empty(one);
  wait_until_empty(other);
}

CASE(queue_order_without_a_barrier) {
  Program p;
  HsaQueue* queue = make_queue();
  Packet launch = dispatch(p.add, p.arguments), loose = launch;
  loose.header = constant::packet_dispatch;
  submit(queue, {launch, loose, launch});
  wait_until_empty(queue);
}
