// Graphs that the target instantiates: what their nodes run, in an order in which they may run one after
// the other.
#ifndef KERNCAP_CUDA_GRAPHS_H
#define KERNCAP_CUDA_GRAPHS_H

#include <memory>
#include <vector>

#include "common/launch.h"
#include "cuda/cuda_api.h"

namespace kerncap::cuda {

struct GraphNode {
  CUgraphNode handle = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  bool enabled = true;            // as the target wants it
  Launch launch;                  // of a kernel node; no stream and context yet
  const char* trouble = nullptr;  // why `launch` is not whole
  std::vector<GraphNode> inner;   // of a child graph: its kernel nodes, at any depth
};

// An executable graph. Used by one thread at a time, as the driver demands for it.
struct GraphExec {
  CUgraph graph = nullptr;  // whose node handles these are; null once it is gone
  std::vector<GraphNode> nodes;
  const char* refusal = nullptr;  // why none of its nodes can run alone
};

// The nodes of a graph, its dependencies before each. False: the driver did not tell.
bool read_graph(CUgraph graph, std::vector<GraphNode>* nodes) noexcept;
// A kernel node's launch from its parameters (CUDA_KERNEL_NODE_PARAMS, or _v3 of cuGraphExecNodeSetParams).
void read_kernel_node(const CUDA_KERNEL_NODE_PARAMS& parameters, GraphNode* node) noexcept;
// Why a node of this type can't be disabled; null where it can, or has nothing to do.
const char* refusal_of(CUgraphNodeType type) noexcept;

void track_exec(CUgraphExec exec, CUgraph graph) noexcept;
std::shared_ptr<GraphExec> exec_of(CUgraphExec exec) noexcept;
// The target destroys them. A graph whose nodes' handles may be needed yet is kept: true, and the driver
// is not to be called now. The exec's end names the graph that is to be destroyed with it.
bool keep_graph(CUgraph graph) noexcept;
CUgraph forget_exec(CUgraphExec exec) noexcept;

// Launches `exec`, each wanted kernel node alone between what comes before and after it.
CUresult launch_graph(CUgraphExec exec, CUstream stream, bool per_thread) noexcept;

namespace detail {
void lock_graphs() noexcept;
void unlock_graphs() noexcept;
void forget_graphs_after_fork() noexcept;
}  // namespace detail

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_GRAPHS_H
