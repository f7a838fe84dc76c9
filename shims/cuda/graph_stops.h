// A launch of a graph that can't be launched in parts, as it has memory or conditional nodes. It is launched
// as a whole, with a kernel of ours in the place of each that may be wanted. That one stops the graph: its
// memory is there, what comes before has ended, and the host launches the kernel itself beside it before the
// graph goes on.
//
// The target's launch returns when the graph is launched, as it does without kerncap: a kernel of the graph
// may wait for that thread. A thread of ours sees to the stops (graph_stopped_launch.cpp).
#ifndef KERNCAP_CUDA_GRAPH_STOPS_H
#define KERNCAP_CUDA_GRAPH_STOPS_H

#include <string>
#include <vector>

#include "common/device.h"
#include "common/memory_map.h"
#include "cuda/graph_parts.h"

namespace kerncap::cuda {

struct Stop {
  GraphNode node;                  // as it is at the launch: the target may change its exec at once
  std::string number;              // "2.1.0"
  std::vector<Allocation> memory;  // of the graph's own, that is there at this kernel
  bool has_come = false;
};

class GraphStops final : public Stopped {
 public:
  explicit GraphStops(const GraphLaunch& launch) noexcept;
  ~GraphStops() override { restore(); }
  GraphStops(const GraphStops&) = delete;
  GraphStops& operator=(const GraphStops&) = delete;

  void add(Stop&& stop) { stops_.push_back(std::move(stop)); }
  std::vector<Stop>& all() noexcept { return stops_; }

  // On the thread that launches, with the gate closed (capture::close_for_stops). False, with the reason:
  // nothing has changed.
  bool prepare(const GraphExec& exec, std::string* why);
  // The exec has its own kernels again afterwards: what is launched keeps its parameters.
  CUresult launch() noexcept;
  // Puts the kernels back into their places, if it was not launched.
  void restore() noexcept;

  // On the thread that sees to the stops, in the launch's context. Waits until the graph stops; null once it
  // has ended, or must be given up.
  Stop* next() noexcept;
  // Launches the kernel that it stopped at; once, and again only for a capture that asks for it.
  CUresult run() noexcept;
  Poll poll(std::string* what) override;
  // Lets the graph go on, once the kernel has ended.
  void go_on() noexcept;
  // What the launch leaves of the graph's own memory is known; other threads go on.
  void open_gate() noexcept;
  // The gate was opened, as others had waited for long: nothing is captured from then on.
  bool is_let_go() const noexcept { return let_go_; }
  // The process ends, and the graph doesn't: it may pass its stops without their kernels.
  bool is_given_up() const noexcept;
  void let_pass() noexcept;

 private:
  struct Tools;
  static Tools* tools_of(CUcontext context, std::string* why);
  bool put_stop(size_t index) noexcept;
  bool put_back(size_t index) noexcept;
  bool set(const GraphNode& node, const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept;
  void let_go_after(uint64_t started_ns) noexcept;

  GraphLaunch launch_;
  std::vector<Stop> stops_;
  Tools* tools_ = nullptr;
  std::vector<GraphMemory> memory_;
  size_t put_ = 0;  // how many nodes have the stop in their place
  uint64_t arrived_ = 0;
  const Stop* at_ = nullptr;
  CUresult failed_ = CUDA_SUCCESS;
  bool let_go_ = false;
};

// Why the graph can't be stopped at this kernel; `handles` are those of its conditional nodes.
std::string stop_refusal(const GraphNode& node, const std::vector<uint64_t>& handles);

// --- graph_stopped_launch.cpp ------------------------------------------------------------------------

// Launches a graph that can only be stopped; its kernels count as launches when they run.
CUresult launch_with_stops(const GraphLaunch& launch, const GraphExec& exec) noexcept;

// When the process began to end, or 0: graphs that have not ended some time later are given up.
uint64_t ending_since_ns() noexcept;

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_GRAPH_STOPS_H
