// Graphs that the target instantiates: what their nodes run, in an order in which they may run one after
// the other.
#ifndef KERNCAP_CUDA_GRAPHS_H
#define KERNCAP_CUDA_GRAPHS_H

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/launch.h"
#include "common/memory_map.h"
#include "cuda/cuda_api.h"

namespace kerncap::cuda {

// Allocation::how of a graph's own memory.
inline constexpr char graph_memory[] = "cuGraphAddMemAllocNode";

// What a conditional node is; as the driver numbers them.
enum class Condition : int8_t { unknown = -1, if_node = 0, while_node = 1, switch_node = 2 };

struct GraphNode {
  struct Callee {
    CUfunction function = nullptr;
    CUkernel kernel = nullptr;
    CUcontext context = nullptr;
  };
  CUgraphNode handle = nullptr;  // in the graph of the target's
  CUgraphNode twin = nullptr;    // in GraphExec::copy
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  bool enabled = true;            // as the target wants it
  Launch launch;                  // of a kernel node; no stream and context yet
  const char* trouble = nullptr;  // why `launch` is not whole
  Callee callee;                  // as a kernel node's parameters name it
  std::vector<size_t> after;      // the nodes of its graph that it depends on, by their places
  bool is_alone = false;  // each other node of its graph, and of those around it, is before or behind it
  Allocation memory;      // what a memory node allocates; its base, of one that frees
  uint64_t condition_handle = 0;
  std::vector<GraphNode> inner;              // of a child graph, or of the bodies of a conditional node
  Condition condition = Condition::unknown;  // of a conditional node
};

// An executable graph. Used by one thread at a time, as the driver demands for it.
struct GraphExec {
  CUgraph graph = nullptr;  // whose node handles these are; null once it is gone
  CUgraph copy = nullptr;   // of our own, with the exec's parameters of now, where nodes can't be disabled
  unsigned long long flags = 0;  // it was instantiated with
  std::vector<GraphNode> nodes;
  bool has_stops = false;  // launched as a whole: it has memory or conditional nodes
  std::string refusal;     // why none of its nodes can run alone
  int64_t number = -1;     // in the order of first launches; -1: not launched yet
};

// The nodes of a graph, its dependencies before each. False: the driver did not tell.
bool read_graph(CUgraph graph, std::vector<GraphNode>* nodes) noexcept;
// A kernel node's launch from its parameters (CUDA_KERNEL_NODE_PARAMS, or _v3 of cuGraphExecNodeSetParams).
void read_kernel_node(const CUDA_KERNEL_NODE_PARAMS& parameters, GraphNode* node) noexcept;
// The nodes that are no child graphs, those of child graphs at their places: a part of a launch is a range
// of them.
size_t count_leaves(const std::vector<GraphNode>& nodes) noexcept;

// --- graph_outline.cpp -------------------------------------------------------------------------------

// Whether the driver can leave a node of this type out of a launch; whether it copies a graph with one.
bool can_be_disabled(CUgraphNodeType type) noexcept;
bool can_be_copied(CUgraphNodeType type) noexcept;
// Came with CUDA 12.3: not in every cuda.h that this is compiled with.
constexpr bool is_conditional(CUgraphNodeType type) noexcept {
  return static_cast<int>(type) == 13;
}
constexpr bool is_memory(CUgraphNodeType type) noexcept {
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}
// Whether it has memory or conditional nodes, with which it can be neither copied nor launched in parts.
bool needs_stops(const std::vector<GraphNode>& nodes) noexcept;
bool all_can_be_disabled(const std::vector<GraphNode>& nodes) noexcept;
// The first node that keeps the graph from being launched in parts, by number and kind, and the graph's
// outline; empty if it can.
std::string refusal_of(const std::vector<GraphNode>& nodes);
std::string outline_of(const std::vector<GraphNode>& nodes);

// --- graph_copies.cpp --------------------------------------------------------------------------------

// Whether its parts must be made of a copy, and any may be wanted. A copy costs time at each update.
bool wants_copy(const std::vector<GraphNode>& nodes) noexcept;
// Gives `exec` its copy of the graph that it is instantiated from; or its refusal says why it has no copy.
void copy_graph(CUgraph graph, GraphExec* exec);
// The exec takes the parameters of another graph with the same nodes (cuGraphExecUpdate).
void take_parameters(CUgraph graph, GraphExec* exec);
// The same for a child graph node of it.
void take_child(CUgraph child, GraphNode* node, GraphExec* exec);
// What `update` gave to a node of the exec, its twin in the copy is given with `set`.
void follow(GraphExec* exec, const GraphNode& node, CUresult (*set)(CUgraphNode twin, const void* parameters),
            const void* parameters);

// --- graph_launch.cpp --------------------------------------------------------------------------------

// The graphs that a conditional node runs.
struct Bodies {
  std::vector<CUgraph> graphs;
  Condition condition = Condition::unknown;
  uint64_t handle = 0;
};
void track_bodies(CUgraphNode node, const CUgraph* bodies, size_t count, Condition condition,
                  uint64_t handle) noexcept;
Bodies bodies_of(CUgraphNode node);
void track_exec(CUgraphExec exec, CUgraph graph, unsigned long long flags) noexcept;
std::shared_ptr<GraphExec> exec_of(CUgraphExec exec) noexcept;
// The target destroys them. A graph whose nodes' handles may be needed yet is kept: true, and the driver
// is not to be called now. The exec's end names the graph that is to be destroyed with it.
bool keep_graph(CUgraph graph) noexcept;
CUgraph forget_exec(CUgraphExec exec) noexcept;

inline constexpr char no_handles[] =
    "the graph that it was instantiated from is gone, and its nodes' handles with it";

// Memory of a graph's own that a launch takes, or gives back, in the order in which it does.
struct GraphMemory {
  Allocation memory;
  bool is_taken = false;
};
std::vector<GraphMemory> memory_of(const std::vector<GraphNode>& nodes);
// What a launch leaves of it is there until something else frees it.
void note_memory(const std::vector<GraphMemory>& changes) noexcept;

// Launches `exec`, each wanted kernel node alone between what comes before and after it.
CUresult launch_graph(CUgraphExec exec, CUstream stream, bool per_thread) noexcept;

// --- graph_stopped_launch.cpp ------------------------------------------------------------------------

// Launches of graphs that stop at their kernels and have not ended: one at most, and one more that is begun.
extern std::atomic<uint32_t> stopped_graphs;
// What follows such a launch on its thread comes after it, in the order of launches too. A kernel that was
// never launched waits for the graph's end, for its code may have to be loaded (await_stopped_graphs).
void keep_order(const Kernel* kernel) noexcept;
// Before calls that may wait for an idle device inside the driver: they would keep it from launching the
// kernels that the graph stopped at. For some time at most: a kernel of it may wait for the caller.
void await_stopped_graphs() noexcept;
// The process ends.
void finish_stopped_graphs() noexcept;

namespace detail {
void lock_graphs() noexcept;
void unlock_graphs() noexcept;
void forget_graphs_after_fork() noexcept;
}  // namespace detail

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_GRAPHS_H
