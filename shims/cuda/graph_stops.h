// A launch of a graph that can't be launched in parts, as it has memory or conditional nodes. It is launched
// as a whole, with a kernel of ours in the place of each that may be wanted. That one stops the graph: its
// memory is there, what comes before has ended, and the host launches the kernel itself beside it before the
// graph goes on.
#ifndef KERNCAP_CUDA_GRAPH_STOPS_H
#define KERNCAP_CUDA_GRAPH_STOPS_H

#include <string>
#include <vector>

#include "common/device.h"
#include "common/memory_map.h"
#include "cuda/graph_parts.h"

namespace kerncap::cuda {

struct Stop {
  const GraphNode* node = nullptr;
  std::string number;              // "2.1.0"
  std::vector<Allocation> memory;  // of the graph's own, that is there at this kernel
};

class GraphStops final : public Stopped {
 public:
  GraphStops(const GraphLaunch& launch, CUcontext context) noexcept;
  ~GraphStops() override;  // the graph has ended; opens the gate
  GraphStops(const GraphStops&) = delete;
  GraphStops& operator=(const GraphStops&) = delete;

  void add(Stop&& stop) { stops_.push_back(std::move(stop)); }
  const std::vector<Stop>& all() const noexcept { return stops_; }

  // With the gate closed (capture::close_for_stops). False, with the reason: nothing has changed.
  bool prepare(std::string* why);
  CUresult launch() noexcept;
  // Waits until the graph stops; null once it has ended.
  const Stop* next() noexcept;
  // Launches the kernel that it stopped at; once, and again only for a capture that asks for it.
  CUresult run() noexcept;
  Poll poll(std::string* what) override;
  // Lets the graph go on, once the kernel has ended.
  void go_on() noexcept;
  // It took so long that other threads were let go: nothing is captured from then on.
  bool is_let_go() const noexcept { return let_go_; }

 private:
  struct Tools;
  static Tools* tools_of(CUcontext context, std::string* why);
  bool put_stop(size_t index) noexcept;
  bool put_back(size_t index) noexcept;
  bool set(const GraphNode& node, const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept;
  void let_go_after(uint64_t started_ns) noexcept;

  GraphLaunch launch_;
  CUcontext context_;
  std::vector<Stop> stops_;
  Tools* tools_ = nullptr;
  size_t put_ = 0;  // how many nodes have the stop in their place
  uint64_t arrived_ = 0;
  const Stop* at_ = nullptr;
  CUresult failed_ = CUDA_SUCCESS;
  bool let_go_ = false;
};

// Why the graph can't be stopped at this kernel; `handles` are those of its conditional nodes.
std::string stop_refusal(const GraphNode& node, const std::vector<uint64_t>& handles);

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_GRAPH_STOPS_H
