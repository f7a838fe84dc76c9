// What orders the nodes of a graph that is launched in parts, for the order of a range (stream_order.h):
// noted as if each node had a stream of its own, which waits for the nodes that it depends on.
#ifndef KERNCAP_CUDA_GRAPH_ORDER_H
#define KERNCAP_CUDA_GRAPH_ORDER_H

#include <cstdint>
#include <vector>

#include "cuda/graph_parts.h"

namespace kerncap::cuda {

class GraphOrder {
 public:
  // The nodes of the graph or of a child graph in it: a number for each, and for what comes before them all.
  struct Level {
    uint64_t entry = 0;
    std::vector<uint64_t> branches;
  };

  // The launch begins. `begins`: it is all of a range, and what orders it is recorded from here on.
  GraphOrder(const GraphLaunch& launch, bool begins) noexcept;
  bool is_recorded() const noexcept { return begin_ != 0; }

  Level enter(const std::vector<GraphNode>& nodes, uint64_t entry) const;
  Level enter(const std::vector<GraphNode>& nodes) const { return enter(nodes, begin_); }
  // The number for the node, with which its launch is described (Launch::branch); 0 if nothing is recorded.
  uint64_t begin_node(const Level& level, const std::vector<GraphNode>& nodes, size_t number) const noexcept;
  // `is_known`: it is a launch of the range, or work that waits for nothing but its dependencies.
  void end_node(uint64_t branch, bool is_known) const noexcept;
  // All nodes of the level have ended for who waits for `branch`; 0: for the stream of the launch.
  void leave(const Level& level, uint64_t branch) const noexcept;

 private:
  GraphLaunch launch_;
  uint64_t begin_ = 0;
};

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_GRAPH_ORDER_H
