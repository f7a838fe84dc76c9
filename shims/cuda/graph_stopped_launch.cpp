// The launch of a graph that stops at its kernels (graph_stops.h), and the thread that sees to the stops.
//
// The target's thread closes the gate, has all end that was queued before, launches, and hands the gate over.
// So nothing but the graph is on the device until it has ended, or until others have waited for too long.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "common/capture.h"
#include "common/clock.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graph_stops.h"
#include "cuda/graphs.h"
#include "cuda/registry.h"

namespace kerncap::cuda {

KERNCAP_READ_BY_EACH_CALL std::atomic<uint32_t> stopped_graphs{0};

namespace {

constexpr uint64_t most_wait_ns = 30 * second_ns;
constexpr uint64_t give_up_ns = 6 * second_ns;  // a second more than the thread takes to do it

std::atomic<uint64_t> ending_ns{0};
std::atomic<bool> is_taken{false};  // a launch of a stopped graph is being captured

bool is_wanted(const Launch& launch) {
  capture::note(*launch.kernel, launch.grid, launch.block, launch.stream);
  return capture::look(*launch.kernel) && capture::wants(launch);
}

// What is launched, until the graph has ended. Its thread's own, once that is started.
class StoppedLaunch {
 public:
  explicit StoppedLaunch(const GraphLaunch& launch) noexcept : stops(launch), launch_(launch) {}

  GraphStops stops;

  // False: no thread can be made, and the caller owns it still.
  bool start_thread() noexcept {
    stopped_graphs.fetch_add(1);
    // The target's signals are for the target's threads.
    uint64_t all = ~uint64_t{0}, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    pthread_t thread;
    const bool made = pthread_create(&thread, nullptr, main, this) == 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof all);
    if (made) pthread_detach(thread);
    if (!made) stopped_graphs.fetch_sub(1);
    return made;
  }
  // The thread begins with the stops, or only ends.
  void hand_over() noexcept {
    gate::hand_over();
    told_.store(Told::launched, std::memory_order_release);
  }
  void cancel() noexcept { told_.store(Told::cancelled, std::memory_order_release); }

 private:
  enum class Told : uint8_t { nothing, launched, cancelled };

  static void* main(void* self) noexcept {
    std::unique_ptr<StoppedLaunch> own(static_cast<StoppedLaunch*>(self));
    for (Backoff backoff; own->told_.load(std::memory_order_acquire) == Told::nothing;) backoff.pause();
    if (own->told_.load() == Told::launched) own->see_to_stops();
    own.reset();
    stopped_graphs.fetch_sub(1);
    return nullptr;
  }

  void see_to_stops() noexcept {
    gate::take_over();
    InContext in(launch_.context);
    Relaxed relaxed;
    while (Stop* stop = stops.next()) run_stop(*stop);
    if (stops.is_given_up()) {
      stops.let_pass();
      for (const Stop& stop : stops.all())
        if (!stop.has_come)
          capture::refuse(stop.node.launch.kernel, "its graph had not come to it when the program ended");
    }
    stops.open_gate();
    capture::graph_ended(launch_.turn);
  }

  void run_stop(const Stop& stop) noexcept {
    bool has_run = false;
    try {
      Launch launch = launch_.describe(stop.node, stop.number);
      launch.stopped = &stops;
      if (is_wanted(launch)) {
        if (stops.is_let_go()) {
          capture::refuse(launch.kernel,
                          "its graph was let go: for 5 s it came to no other stop, while other threads "
                          "waited, one of which a kernel of it may wait for");
        } else {
          is_taken.store(true);
          for (const Allocation& memory : stop.memory) MemoryMap::instance().add(memory);
          auto call = [](void* own) noexcept -> int {
            return static_cast<int>(static_cast<GraphStops*>(own)->run());
          };
          has_run = true;
          capture::run(launch, call, &stops);
          for (const Allocation& memory : stop.memory) MemoryMap::instance().remove(memory.base);
          is_taken.store(false);
        }
      }
    } catch (const std::bad_alloc&) {
      // It is not captured, then.
    }
    if (!has_run && stops.run() != CUDA_SUCCESS)
      capture::refuse(stop.node.launch.kernel, "the driver refused to launch it next to its graph");
    stops.go_on();
  }

  GraphLaunch launch_;
  std::atomic<Told> told_{Told::nothing};
};

// Finds the kernels of a graph that may be wanted, and says why the others can't be.
class Finder {
 public:
  Finder(const GraphLaunch& launch, const GraphExec& exec, GraphStops* stops)
      : launch_(launch), exec_(exec), stops_(stops) {}

  void find() {
    find_handles(exec_.nodes);
    find_stops(exec_.nodes, {}, {true, false});
    for (const Refused& one : refused_) refuse(one);
  }

  void refuse_all(const std::string& reason) {
    for (const Stop& stop : stops_->all()) refuse({&stop.node, stop.number, reason});
  }

  bool close_gate(std::string* why) {
    std::vector<Launch> launches;
    for (const Stop& stop : stops_->all()) launches.push_back(launch_.describe(stop.node, stop.number));
    if (!exec_.refusal.empty())
      *why = exec_.refusal;
    else if (exec_.graph == nullptr)
      *why = no_handles;
    else if (is_capturing())
      *why = "a stream capture is under way, where nothing can be copied";
    else
      return capture::close_for_stops(launches, stops_, why);
    return false;
  }

 private:
  struct Refused {
    const GraphNode* node;
    std::string number, reason;
  };
  struct Place {
    bool is_alone, is_in_body;
  };

  void find_handles(const std::vector<GraphNode>& nodes) {
    for (const GraphNode& node : nodes) {
      if (is_conditional(node.type)) handles_.push_back(node.condition_handle);
      find_handles(node.inner);
    }
  }

  // Counts the kernels that nobody wants, but for those in bodies: how often they run only the device knows.
  void find_stops(const std::vector<GraphNode>& nodes, const std::string& path, Place place) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const GraphNode& node = nodes[i];
      if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node.memory.size != 0) there_.push_back(node.memory);
      if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        there_.erase(std::remove_if(there_.begin(), there_.end(),
                                    [&](const Allocation& one) { return one.base == node.memory.base; }),
                     there_.end());
      const bool is_alone = place.is_alone && node.is_alone;
      if (!node.inner.empty())
        find_stops(node.inner, path + std::to_string(i) + ".",
                   {is_alone, place.is_in_body || is_conditional(node.type)});
      Kernel* kernel = node.launch.kernel;
      if (kernel == nullptr || !node.enabled) continue;
      if (capture::may_want_in_graph(*kernel)) {
        const std::string number = path + std::to_string(i);
        std::string reason = is_alone ? stop_refusal(node, handles_) : not_alone;
        if (reason.empty() || !exec_.refusal.empty())
          stops_->add({node, number, there_});
        else
          refused_.push_back({&node, number, reason + "; " + outline_of(exec_.nodes)});
      } else if (!place.is_in_body) {
        capture::note(*kernel, node.launch.grid, node.launch.block, launch_.stream);
        capture::look(*kernel);
      }
    }
  }

  void refuse(const Refused& one) {
    if (is_wanted(launch_.describe(*one.node, one.number)))
      capture::refuse(one.node->launch.kernel, one.reason.c_str());
  }

  static constexpr char not_alone[] =
      "other nodes may run at the same time, and a graph with memory or conditional nodes can't be launched "
      "in parts";

  const GraphLaunch& launch_;
  const GraphExec& exec_;
  GraphStops* stops_;
  std::vector<Refused> refused_;
  std::vector<Allocation> there_;  // of the graph's own, at the node that is looked at
  std::vector<uint64_t> handles_;  // of its conditional nodes
};

// One that was let go may not have ended; the one before has, though its thread may not know yet.
bool is_only_one(std::string* why) noexcept {
  const uint64_t deadline = now_ns() + second_ns;
  for (Backoff backoff; stopped_graphs.load() != 0; backoff.pause()) {
    if (now_ns() < deadline) continue;
    *why = "another graph that kerncap stopped has not ended";
    return false;
  }
  return true;
}

}  // namespace

void await_stopped_graphs() noexcept {
  if (gate::Own::active() || gate::is_mine()) return;
  KeepErrno keep;
  const uint64_t deadline = now_ns() + most_wait_ns;
  for (Backoff backoff; stopped_graphs.load() != 0 && now_ns() < deadline;) backoff.pause();
}

CUresult launch_with_stops(const GraphLaunch& launch, const GraphExec& exec) noexcept {
  std::unique_ptr<StoppedLaunch> stopped;
  try {
    stopped = std::make_unique<StoppedLaunch>(launch);
    Finder finder(launch, exec, &stopped->stops);
    finder.find();
    if (stopped->stops.all().empty()) {
      capture::graph_ended(launch.turn);
      return launch_whole(launch, exec);
    }
    std::string why;
    bool is_ready = finder.close_gate(&why) && is_only_one(&why) && stopped->stops.prepare(exec, &why);
    if (is_ready && !stopped->start_thread()) {
      is_ready = false;
      why = "no thread can be made that would see to its graph's stops";
    }
    if (!is_ready) {
      stopped->stops.restore();
      gate::open();
      finder.refuse_all(why);
      capture::graph_ended(launch.turn);
      return launch_whole(launch, exec);
    }
  } catch (const std::bad_alloc&) {
    stopped.reset();
    gate::open();
    return launch_whole(launch, exec);
  }
  StoppedLaunch* started = stopped.release();
  const CUresult result = started->stops.launch();
  if (result == CUDA_SUCCESS) {
    started->hand_over();
  } else {
    gate::open();
    started->cancel();
  }
  return result;
}

uint64_t ending_since_ns() noexcept {
  return ending_ns.load(std::memory_order_relaxed);
}

void finish_stopped_graphs() noexcept {
  if (stopped_graphs.load() == 0) return;
  const uint64_t now = now_ns();
  ending_ns.store(now);
  for (Backoff backoff; stopped_graphs.load() != 0 && (is_taken.load() || now_ns() - now < give_up_ns);)
    backoff.pause();
}

void keep_order(const Kernel* kernel) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (kernel != nullptr && kernel->launches.load() == 0 && !kernel->is_loaded.load(relaxed))
    await_stopped_graphs();
  gate::Pass pass(kernel);
}

}  // namespace kerncap::cuda
