// Graphs: building, copying, running.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "memory.h"

namespace rig {

std::vector<GraphNode*> in_order(const Graph* graph) {
  std::vector<GraphNode*> order;
  std::set<GraphNode*> placed;
  // Nodes come in the order in which they were added; a dependency can be added later still.
  while (order.size() < graph->nodes.size()) {
    size_t before = order.size();
    for (GraphNode* node : graph->nodes) {
      if (placed.count(node)) continue;
      bool ready =
          std::all_of(node->after.begin(), node->after.end(), [&](GraphNode* n) { return placed.count(n); });
      if (!ready) continue;
      order.push_back(node);
      placed.insert(node);
    }
    if (order.size() == before) break;  // a circle: refused at instantiation
  }
  return order;
}

bool has_node(const Graph* graph, CUgraphNodeType type) {
  return std::any_of(graph->nodes.begin(), graph->nodes.end(), [&](const GraphNode* node) {
    std::vector<Graph*> inside = graphs_in(node->work);
    return node->work.type == type || std::any_of(inside.begin(), inside.end(),
                                                  [&](const Graph* inner) { return has_node(inner, type); });
  });
}

std::vector<Graph*> graphs_in(const Work& work) {
  if (work.child) return {work.child};
  return work.bodies;
}

void assign_conditions(const Graph* graph) {
  for (const GraphNode* node : graph->nodes) {
    Condition* condition = node->work.condition;
    if (condition && condition->is_assigned) condition->value = condition->standard;
    for (const Graph* inner : graphs_in(node->work)) assign_conditions(inner);
  }
}

bool has_memory_nodes(const Graph* graph) {
  return has_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC) || has_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
}

Graph* clone_graph(const Graph* graph, std::map<GraphNode*, GraphNode*>* map) {
  auto* copy = new Graph;
  std::map<GraphNode*, GraphNode*> local;
  for (GraphNode* node : graph->nodes) {
    auto* twin = new GraphNode;
    twin->graph = copy;
    twin->work = node->work;
    twin->original = node;
    if (node->work.child) twin->work.child = clone_graph(node->work.child, map);
    for (Graph*& body : twin->work.bodies) body = clone_graph(body, map);
    copy->nodes.push_back(twin);
    local[node] = twin;
  }
  for (GraphNode* node : graph->nodes)
    for (GraphNode* dependency : node->after) local[node]->after.push_back(local[dependency]);
  if (map) map->insert(local.begin(), local.end());
  return copy;
}

namespace {

CUresult run_bodies(Context* context, const Work& work, const std::set<GraphNode*>* disabled) {
  unsigned& value = work.condition->value;
  if (work.branching == CU_GRAPH_COND_TYPE_WHILE) {
    while (value != 0)
      if (CUresult error = run_graph(context, work.bodies[0], disabled)) return error;
    return CUDA_SUCCESS;
  }
  const size_t chosen = work.branching == CU_GRAPH_COND_TYPE_IF ? value == 0 : value;
  return chosen < work.bodies.size() ? run_graph(context, work.bodies[chosen], disabled) : CUDA_SUCCESS;
}

}  // namespace

CUresult run_graph(Context* context, const Graph* graph, const std::set<GraphNode*>* disabled) {
  for (GraphNode* node : in_order(graph)) {
    if (disabled && disabled->count(node)) continue;
    Work& work = node->work;
    CUresult status = work.child       ? run_graph(context, work.child, disabled)
                      : work.condition ? run_bodies(context, work, disabled)
                                       : run_work(context, work);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

CUresult take_work(Graph* own, const Graph* source) {
  if (own->nodes.size() != source->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < own->nodes.size(); ++i) {
    Work& work = own->nodes[i]->work;
    const Work& given = source->nodes[i]->work;
    if (work.type != given.type) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Graph*> inside = graphs_in(work), wanted = graphs_in(given);
    if (inside.size() != wanted.size()) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < inside.size(); ++k)
      if (CUresult error = take_work(inside[k], wanted[k])) return error;
    if (inside.empty()) work = given;
  }
  return CUDA_SUCCESS;
}

}  // namespace rig

using namespace rig;

namespace {

CUresult find_graph(CUgraph handle, Graph** graph) {
  if (CUresult error = enter_without_context()) return error;
  *graph = as<Graph>(handle, Magic::graph);
  return *graph && !(*graph)->gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_exec(CUgraphExec handle, GraphExec** exec) {
  if (CUresult error = enter_without_context()) return error;
  *exec = as<GraphExec>(handle, Magic::graph_exec);
  return *exec && !(*exec)->gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// `out` of capacity *count, or only the number where it is null.
CUresult list_nodes(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (out) {
    for (size_t i = 0; i < *count; ++i)
      out[i] = i < nodes.size() ? reinterpret_cast<CUgraphNode>(nodes[i]) : nullptr;
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
  return CUDA_SUCCESS;
}

std::vector<GraphNode*> dependents(const GraphNode* node) {
  std::vector<GraphNode*> found;
  for (GraphNode* other : node->graph->nodes)
    if (std::find(other->after.begin(), other->after.end(), node) != other->after.end())
      found.push_back(other);
  return found;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  if (in_order(graph).size() != graph->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  // Memory nodes have one address each, and one life of it at a time.
  if (graph->instances && has_memory_nodes(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard<std::mutex> lock(state().mutex);
  ++graph->instances;
  auto* exec = new GraphExec;
  exec->source = graph;
  exec->graph = clone_graph(graph, &exec->by_source);
  exec->flags = flags;
  *out = reinterpret_cast<CUgraphExec>(exec);
  return CUDA_SUCCESS;
}

CUresult add_edges(const CUgraphNode* from, const CUgraphNode* to, size_t count, bool add) {
  for (size_t i = 0; i < count; ++i) {
    auto *first = as<GraphNode>(from[i], Magic::node), *second = as<GraphNode>(to[i], Magic::node);
    if (!first || !second || first->graph != second->graph) return CUDA_ERROR_INVALID_VALUE;
    auto at = std::find(second->after.begin(), second->after.end(), first);
    if (add == (at != second->after.end())) return CUDA_ERROR_INVALID_VALUE;
    if (add)
      second->after.push_back(first);
    else
      second->after.erase(at);
  }
  return CUDA_SUCCESS;
}

}  // namespace

RIG_API cuGraphCreate(CUgraph* out, unsigned) {
  if (CUresult error = enter_without_context()) return error;
  *out = reinterpret_cast<CUgraph>(new Graph);
  return CUDA_SUCCESS;
}
RIG_API cuGraphDestroy(CUgraph handle) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  graph->gone = true;
  return CUDA_SUCCESS;
}
RIG_API cuGraphClone(CUgraph* out, CUgraph handle) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  if (has_memory_nodes(graph) || has_node(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL))
    return CUDA_ERROR_NOT_SUPPORTED;
  *out = reinterpret_cast<CUgraph>(clone_graph(graph, nullptr));
  return CUDA_SUCCESS;
}
RIG_API cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  for (GraphNode* node : graph->nodes) {
    if (node->original != as<GraphNode>(original, Magic::node)) continue;
    *out = reinterpret_cast<CUgraphNode>(node);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

RIG_API cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  return list_nodes(graph->nodes, out, count);
}
RIG_API cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  std::vector<GraphNode*> roots;
  for (GraphNode* node : graph->nodes)
    if (node->after.empty()) roots.push_back(node);
  return list_nodes(roots, out, count);
}
RIG_API cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                           size_t* count) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  size_t found = 0;
  for (GraphNode* node : graph->nodes) {
    for (GraphNode* dependency : node->after) {
      if (from && to && found < *count) {
        from[found] = reinterpret_cast<CUgraphNode>(dependency);
        to[found] = reinterpret_cast<CUgraphNode>(node);
        if (data) data[found] = {};
      }
      ++found;
    }
  }
  *count = from && to ? std::min(*count, found) : found;
  return CUDA_SUCCESS;
}
RIG_API cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return cuGraphGetEdges_v2(handle, from, to, nullptr, count);
}
RIG_API cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  auto* node = as<GraphNode>(handle, Magic::node);
  return node ? list_nodes(node->after, out, count) : CUDA_ERROR_INVALID_VALUE;
}
RIG_API cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                                      size_t* count) {
  if (out && data) std::fill(data, data + *count, CUgraphEdgeData{});
  return cuGraphNodeGetDependencies(handle, out, count);
}
RIG_API cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  auto* node = as<GraphNode>(handle, Magic::node);
  return node ? list_nodes(dependents(node), out, count) : CUDA_ERROR_INVALID_VALUE;
}
RIG_API cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                                        size_t* count) {
  if (out && data) std::fill(data, data + *count, CUgraphEdgeData{});
  return cuGraphNodeGetDependentNodes(handle, out, count);
}
RIG_API cuGraphAddDependencies(CUgraph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return add_edges(from, to, count, true);
}
RIG_API cuGraphAddDependencies_v2(CUgraph, const CUgraphNode* from, const CUgraphNode* to,
                                  const CUgraphEdgeData*, size_t count) {
  return add_edges(from, to, count, true);
}
RIG_API cuGraphRemoveDependencies(CUgraph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return add_edges(from, to, count, false);
}
RIG_API cuGraphRemoveDependencies_v2(CUgraph, const CUgraphNode* from, const CUgraphNode* to,
                                     const CUgraphEdgeData*, size_t count) {
  return add_edges(from, to, count, false);
}
RIG_API cuGraphDestroyNode(CUgraphNode handle) {
  auto* node = as<GraphNode>(handle, Magic::node);
  if (!node || node->gone) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (GraphNode* other : dependents(node))
    other->after.erase(std::find(other->after.begin(), other->after.end(), node));
  auto& nodes = node->graph->nodes;
  nodes.erase(std::find(nodes.begin(), nodes.end(), node));
  node->gone = true;
  return CUDA_SUCCESS;
}
RIG_API cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  auto* node = as<GraphNode>(handle, Magic::node);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  *type = node->work.type;
  return CUDA_SUCCESS;
}
RIG_API cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  Graph* graph = nullptr;
  if (CUresult error = find_graph(handle, &graph)) return error;
  std::FILE* file = std::fopen(path, "w");
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fprintf(file, "digraph { /* %zu nodes */ }\n", graph->nodes.size());
  std::fclose(file);
  return CUDA_SUCCESS;
}

// --- instances -----------------------------------------------------------------------------------

RIG_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags);
}
RIG_API cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char*, size_t) {
  if (error_node) *error_node = nullptr;
  return instantiate(out, graph, 0);
}
RIG_API cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                     CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  CUresult status = instantiate(out, graph, parameters->flags);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = status ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return status;
}
RIG_API cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  GraphExec* exec = nullptr;
  if (CUresult error = find_exec(handle, &exec)) return error;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}
RIG_API cuGraphExecDestroy(CUgraphExec handle) {
  GraphExec* exec = nullptr;
  if (CUresult error = find_exec(handle, &exec)) return error;
  exec->gone = true;  // what is enqueued still runs
  --exec->source->instances;
  return CUDA_SUCCESS;
}

RIG_API cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode source, unsigned enabled) {
  GraphExec* exec = nullptr;
  if (CUresult error = find_exec(handle, &exec)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  auto found = exec->by_source.find(as<GraphNode>(source, Magic::node));
  if (found == exec->by_source.end()) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeType type = found->second->work.type;
  if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMCPY &&
      type != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  if (enabled)
    exec->disabled.erase(found->second);
  else
    exec->disabled.insert(found->second);
  return CUDA_SUCCESS;
}
RIG_API cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode source, unsigned* enabled) {
  GraphExec* exec = nullptr;
  if (CUresult error = find_exec(handle, &exec)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  auto found = exec->by_source.find(as<GraphNode>(source, Magic::node));
  if (found == exec->by_source.end()) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeType type = found->second->work.type;
  if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMCPY &&
      type != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  *enabled = !exec->disabled.count(found->second);
  return CUDA_SUCCESS;
}

RIG_API cuGraphUpload(CUgraphExec, CUstream) {
  return CUDA_SUCCESS;
}

RIG_API cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  GraphExec* exec = nullptr;
  if (CUresult error = find_exec(handle, &exec)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(stream_handle, context, &stream)) return error;
  Work work;
  if (stream->capture) {
    std::lock_guard<std::mutex> lock(state().mutex);
    work.type = CU_GRAPH_NODE_TYPE_GRAPH;
    work.child = clone_graph(exec->graph, nullptr);
    return capture_work(stream, work);
  }
  // As it stands now: what is changed after this call concerns the next launch.
  std::map<GraphNode*, GraphNode*> twins;
  auto disabled = std::make_shared<std::set<GraphNode*>>();
  Graph* copy = nullptr;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    copy = clone_graph(exec->graph, &twins);
    for (GraphNode* node : exec->disabled) disabled->insert(twins[node]);
  }
  Context* owner = stream->context;
  uint32_t correlation = trace_launch(), number = static_cast<uint32_t>(stream->id);
  work.other = [owner, copy, disabled, correlation, number] {
    TracedGraph traced(correlation, number);
    assign_conditions(copy);
    return run_graph(owner, copy, disabled.get());
  };
  return submit(stream, std::move(work));
}

RIG_API cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo* info) {
  GraphExec* exec = nullptr;
  Graph* graph = nullptr;
  if (CUresult error = find_exec(handle, &exec)) return error;
  if (CUresult error = find_graph(graph_handle, &graph)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (info) *info = {};
  bool same = graph->nodes.size() == exec->graph->nodes.size();
  for (size_t i = 0; same && i < graph->nodes.size(); ++i)
    same = graph->nodes[i]->work.type == exec->graph->nodes[i]->work.type &&
           graph->nodes[i]->after.size() == exec->graph->nodes[i]->after.size();
  if (!same) {
    if (info) info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  // The handles of the source graph still name the nodes, and now those of the new one do too.
  if (CUresult error = take_work(exec->graph, graph)) return error;
  for (size_t i = 0; i < graph->nodes.size(); ++i) exec->by_source[graph->nodes[i]] = exec->graph->nodes[i];
  if (info) info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}
