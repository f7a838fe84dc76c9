// Our own copy of a graph that the target instantiated with nodes that can't be disabled: made at that
// moment, since the target may change or destroy its graph, and given whatever the exec is given later.
#include <utility>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"

namespace kerncap::cuda {
namespace {

constexpr const char* lost_track = "its graph was updated in a way that could not be followed";

bool can_copy(const Driver& real) noexcept {
  return real.cuGraphClone != nullptr && real.cuGraphNodeFindInClone != nullptr &&
         real.cuGraphDestroyNode != nullptr && real.cuGraphChildGraphNodeGetGraph != nullptr &&
         real.cuGraphInstantiateWithFlags != nullptr && real.cuGraphExecDestroy != nullptr;
}

// Finds the twin of each node in a clone of its graph.
CUresult pair(const Driver& real, CUgraph clone, std::vector<GraphNode>* nodes) noexcept {
  for (GraphNode& node : *nodes) {
    if (CUresult failed = real.cuGraphNodeFindInClone(&node.twin, node.handle, clone)) return failed;
    if (node.type != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    CUgraph inner = nullptr;
    if (CUresult failed = real.cuGraphChildGraphNodeGetGraph(node.twin, &inner)) return failed;
    if (CUresult failed = pair(real, inner, &node.inner)) return failed;
  }
  return CUDA_SUCCESS;
}

CUresult clone_of(CUgraph graph, std::vector<GraphNode>* nodes, CUgraph* clone) noexcept {
  const Driver& real = *driver();
  if (!can_copy(real)) return CUDA_ERROR_NOT_SUPPORTED;
  gate::Own own;
  Relaxed relaxed;
  if (CUresult failed = real.cuGraphClone(clone, graph)) return failed;
  CUresult failed = pair(real, *clone, nodes);
  if (failed != CUDA_SUCCESS) real.cuGraphDestroy(std::exchange(*clone, nullptr));
  return failed;
}

void drop_copy(GraphExec* exec, std::string reason) noexcept {
  if (exec->copy != nullptr) {
    gate::Own own;
    driver()->cuGraphDestroy(std::exchange(exec->copy, nullptr));
  }
  exec->refusal = std::move(reason);
}

// The nodes keep the target's handles and what it has disabled, and take what the nodes at their places
// have; which place is whose the driver decides by the same order of dependencies.
bool take(std::vector<GraphNode>&& fresh, std::vector<GraphNode>* nodes) noexcept {
  bool same = fresh.size() == nodes->size();
  for (size_t i = 0; same && i < fresh.size(); ++i)
    same = fresh[i].type == (*nodes)[i].type &&
           (fresh[i].launch.kernel == nullptr) == ((*nodes)[i].launch.kernel == nullptr);
  for (size_t i = 0; same && i < fresh.size(); ++i) {
    GraphNode& node = (*nodes)[i];
    node.launch = std::move(fresh[i].launch);
    node.trouble = fresh[i].trouble;
    node.callee = fresh[i].callee;
    node.twin = fresh[i].twin;
    same = take(std::move(fresh[i].inner), &node.inner);
  }
  return same;
}

// The graph that holds `twin`, among the copy and the child graphs in it; null: none.
CUgraph graph_of(const Driver& real, CUgraphNode twin, CUgraph graph,
                 const std::vector<GraphNode>& nodes) noexcept {
  for (const GraphNode& node : nodes) {
    if (node.twin == twin) return graph;
    CUgraph inner = nullptr;
    if (node.inner.empty() || real.cuGraphChildGraphNodeGetGraph(node.twin, &inner) != CUDA_SUCCESS) continue;
    if (CUgraph found = graph_of(real, twin, inner, node.inner)) return found;
  }
  return nullptr;
}

using Neighbours = CUresult(CUDAAPI*)(CUgraphNode, CUgraphNode*, size_t*);

CUresult neighbours_of(CUgraphNode node, Neighbours ask, std::vector<CUgraphNode>* found) {
  size_t count = 0;
  if (CUresult failed = ask(node, nullptr, &count)) return failed;
  found->resize(count);
  return count == 0 ? CUDA_SUCCESS : ask(node, found->data(), &count);
}

// A child graph can't be changed as a whole: another node takes the place of the one that had it.
CUresult replace_child(const Driver& real, CUgraph graph, CUgraph child, CUgraphNode* twin) {
  std::vector<CUgraphNode> before, after;
  if (CUresult failed = neighbours_of(*twin, real.cuGraphNodeGetDependencies, &before)) return failed;
  if (CUresult failed = neighbours_of(*twin, real.cuGraphNodeGetDependentNodes, &after)) return failed;
  CUgraphNode fresh = nullptr;
  if (CUresult failed = real.cuGraphAddChildGraphNode(&fresh, graph, before.data(), before.size(), child))
    return failed;
  std::vector<CUgraphNode> from(after.size(), fresh);
  if (!after.empty())
    if (CUresult failed = real.cuGraphAddDependencies(graph, from.data(), after.data(), after.size()))
      return failed;
  return real.cuGraphDestroyNode(std::exchange(*twin, fresh));
}

}  // namespace

void copy_graph(CUgraph graph, GraphExec* exec) {
  exec->refusal = refusal_of(exec->nodes);
  if (!exec->refusal.empty()) return;
  CUresult failed = clone_of(graph, &exec->nodes, &exec->copy);
  if (failed == CUDA_SUCCESS) return;
  const char* name = nullptr;
  driver()->cuGetErrorName(failed, &name);
  exec->refusal = std::string("the driver refused to copy its graph: ") + (name != nullptr ? name : "?");
}

void take_parameters(CUgraph graph, GraphExec* exec) {
  GraphExec fresh;
  if (!read_graph(graph, &fresh.nodes)) return drop_copy(exec, lost_track);
  if (wants_copy(fresh.nodes)) copy_graph(graph, &fresh);
  drop_copy(exec, std::move(fresh.refusal));
  exec->copy = fresh.copy;
  if (!take(std::move(fresh.nodes), &exec->nodes))
    drop_copy(exec, "its graph was updated with another one whose nodes can't be distinguished");
}

void take_child(CUgraph child, GraphNode* node, GraphExec* exec) {
  std::vector<GraphNode> fresh;
  bool followed = read_graph(child, &fresh);
  if (followed && exec->copy != nullptr) {
    gate::Own own;
    const Driver& real = *driver();
    CUgraph inner = nullptr, outer = graph_of(real, node->twin, exec->copy, exec->nodes);
    followed = outer != nullptr && replace_child(real, outer, child, &node->twin) == CUDA_SUCCESS &&
               real.cuGraphChildGraphNodeGetGraph(node->twin, &inner) == CUDA_SUCCESS &&
               pair(real, inner, &fresh) == CUDA_SUCCESS;
  }
  if (!followed || !take(std::move(fresh), &node->inner)) drop_copy(exec, lost_track);
}

void follow(GraphExec* exec, const GraphNode& node, CUresult (*set)(CUgraphNode twin, const void* parameters),
            const void* parameters) {
  if (exec->copy == nullptr) return;
  gate::Own own;
  if (set(node.twin, parameters) != CUDA_SUCCESS) drop_copy(exec, lost_track);
}

}  // namespace kerncap::cuda
