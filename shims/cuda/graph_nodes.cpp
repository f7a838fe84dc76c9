#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <unordered_map>
#include <utility>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/parameters.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

constexpr size_t node_limit = 1U << 20;
constexpr int most_nested = 64;

bool read_nodes(CUgraph graph, std::vector<GraphNode>* nodes, int depth);

// Launch attributes that a kernel node keeps and that change how it runs.
constexpr CUlaunchAttributeID kept_attributes[] = {
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, CU_LAUNCH_ATTRIBUTE_PRIORITY};

void read_attributes(const Driver& real, GraphNode* node) {
  if (real.cuGraphKernelNodeGetAttribute == nullptr) return;
  for (CUlaunchAttributeID id : kept_attributes) {
    CUkernelNodeAttrValue value = {};
    const CUkernelNodeAttrValue none = {};
    if (real.cuGraphKernelNodeGetAttribute(node->handle, id, &value) != CUDA_SUCCESS ||
        std::memcmp(&value, &none, sizeof value) == 0)
      continue;
    LaunchAttribute attribute;
    attribute.id = static_cast<uint32_t>(id);
    std::memcpy(attribute.value, &value, sizeof attribute.value);
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) node->launch.cooperative = value.cooperative != 0;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      node->launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
      if (value.clusterDim.x * value.clusterDim.y * value.clusterDim.z <= 1) continue;  // no cluster
    }
    node->launch.attributes.push_back(attribute);
  }
}

bool get_parameters(const Driver& real, GraphNode* node) {
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  if (real.cuGraphKernelNodeGetParams_v2 != nullptr) {
    if (real.cuGraphKernelNodeGetParams_v2(node->handle, &parameters) != CUDA_SUCCESS) return false;
  } else {
    // The first seven fields and the two pointers are all that there was.
    CUDA_KERNEL_NODE_PARAMS_v1 old = {};
    if (real.cuGraphKernelNodeGetParams == nullptr ||
        real.cuGraphKernelNodeGetParams(node->handle, &old) != CUDA_SUCCESS)
      return false;
    std::memcpy(&parameters, &old, sizeof old);
  }
  read_kernel_node(parameters, node);
  read_attributes(real, node);
  return true;
}

struct Edge {
  size_t from, to;
};

bool get_edges(const Driver& real, CUgraph graph, const std::unordered_map<CUgraphNode, size_t>& index,
               std::vector<Edge>* edges) {
  std::vector<CUgraphNode> from, to;
  size_t count = 0;
  CUresult result = CUDA_ERROR_NOT_FOUND;
#if CUDA_VERSION >= 12030
  // Edges with data of their own are told only by the newer function.
  if (real.cuGraphGetEdges_v2 != nullptr) {
    result = real.cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count);
    if (result == CUDA_SUCCESS && count != 0) {
      std::vector<CUgraphEdgeData> data(count);
      from.resize(count);
      to.resize(count);
      result = real.cuGraphGetEdges_v2(graph, from.data(), to.data(), data.data(), &count);
    }
  }
#endif
  if (result != CUDA_SUCCESS) {
    if (real.cuGraphGetEdges == nullptr ||
        real.cuGraphGetEdges(graph, nullptr, nullptr, &count) != CUDA_SUCCESS)
      return false;
    from.resize(count);
    to.resize(count);
    if (count != 0 && real.cuGraphGetEdges(graph, from.data(), to.data(), &count) != CUDA_SUCCESS)
      return false;
  }
  for (size_t i = 0; i < std::min(count, from.size()); ++i) {
    auto a = index.find(from[i]), b = index.find(to[i]);
    if (a == index.end() || b == index.end()) return false;
    edges->push_back({a->second, b->second});
  }
  return true;
}

// Dependencies first; among those that are free in the driver's own order, so that equal graphs give
// equal orders.
std::vector<size_t> ordered(size_t count, const std::vector<Edge>& edges) {
  std::vector<size_t> waits(count, 0), starts(count + 1, 0), followers(edges.size()), order;
  for (const Edge& edge : edges) {
    ++waits[edge.to];
    ++starts[edge.from + 1];
  }
  for (size_t i = 0; i < count; ++i) starts[i + 1] += starts[i];
  std::vector<size_t> next(starts.begin(), starts.end() - 1);
  for (const Edge& edge : edges) followers[next[edge.from]++] = edge.to;
  for (size_t i = 0; i < count; ++i)
    if (waits[i] == 0) order.push_back(i);
  for (size_t at = 0; at < order.size(); ++at)
    for (size_t i = starts[order[at]]; i < starts[order[at] + 1]; ++i)
      if (--waits[followers[i]] == 0) order.push_back(followers[i]);
  return order;
}

// For each place of the order: whether all before it must have ended when it begins, and all behind it wait
// for it. Those before must lead to it, the last of them by an edge of their own; and the other way round.
std::vector<bool> alone(const std::vector<size_t>& order, const std::vector<Edge>& edges) {
  const size_t count = order.size();
  std::vector<size_t> place(count), first_follower(count, count), after_last_leader(count, 0);
  for (size_t at = 0; at < count; ++at) place[order[at]] = at;
  for (const Edge& edge : edges) {
    size_t from = place[edge.from], to = place[edge.to];
    first_follower[from] = std::min(first_follower[from], to);
    after_last_leader[to] = std::max(after_last_leader[to], from + 1);
  }
  std::vector<bool> result(count, true);
  size_t latest = 0, earliest = count;
  for (size_t at = 0; at < count; ++at) {
    result[at] = latest <= at;
    latest = std::max(latest, first_follower[at]);
  }
  for (size_t at = count; at-- > 0;) {
    result[at] = result[at] && earliest > at;
    earliest = std::min(earliest, after_last_leader[at]);
  }
  return result;
}

bool get_memory(const Driver& real, GraphNode* node) {
  node->memory.how = graph_memory;
  CUdeviceptr address = 0;
  if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    if (real.cuGraphMemFreeNodeGetParams == nullptr ||
        real.cuGraphMemFreeNodeGetParams(node->handle, &address) != CUDA_SUCCESS)
      return false;
    node->memory.base = address;
    return true;
  }
  CUDA_MEM_ALLOC_NODE_PARAMS given = {};
  if (real.cuGraphMemAllocNodeGetParams == nullptr ||
      real.cuGraphMemAllocNodeGetParams(node->handle, &given) != CUDA_SUCCESS)
    return false;
  if (given.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return true;
  node->memory.base = given.dptr;
  node->memory.size = given.bytesize;
  node->memory.device = given.poolProps.location.id;
  return true;
}

}  // namespace

void read_kernel_node(const CUDA_KERNEL_NODE_PARAMS& parameters, GraphNode* node) noexcept {
  CUfunction function =
      parameters.func != nullptr ? parameters.func : reinterpret_cast<CUfunction>(parameters.kern);
  Launch& launch = node->launch;
  node->callee = {parameters.func, parameters.kern, parameters.ctx};
  launch.kernel = kernel_of(function);
  if (launch.kernel != nullptr) launch.kernel->is_loaded.store(true, std::memory_order_relaxed);
  launch.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  launch.block = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ};
  launch.shared_bytes = parameters.sharedMemBytes;
  launch.context = parameters.func != nullptr ? nullptr : parameters.ctx;
  // Copied now: the graph may be changed, or be gone, while what was instantiated stays as it is.
  node->trouble = launch.kernel == nullptr ? "the driver does not tell which kernel a node runs"
                                           : read_parameters(*launch.kernel, parameters.kernelParams,
                                                             parameters.extra, &launch.parameters);
}

namespace {

bool read_nodes(CUgraph graph, std::vector<GraphNode>* nodes, int depth) {
  const Driver* real = driver();
  gate::Own own;
  size_t count = 0;
  if (real == nullptr || real->cuGraphGetNodes == nullptr || real->cuGraphNodeGetType == nullptr ||
      real->cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count > node_limit)
    return false;
  std::vector<CUgraphNode> handles(count);
  if (count != 0 && real->cuGraphGetNodes(graph, handles.data(), &count) != CUDA_SUCCESS) return false;
  std::unordered_map<CUgraphNode, size_t> index;
  for (size_t i = 0; i < count; ++i) index[handles[i]] = i;
  std::vector<Edge> edges;
  if (!get_edges(*real, graph, index, &edges)) return false;
  nodes->clear();
  const std::vector<size_t> order = ordered(count, edges);
  const std::vector<bool> is_alone = alone(order, edges);
  std::vector<std::vector<size_t>> after(count);
  std::vector<size_t> place(count);
  for (size_t at = 0; at < order.size(); ++at) place[order[at]] = at;
  for (const Edge& edge : edges) after[edge.to].push_back(place[edge.from]);
  for (size_t at : order) {
    GraphNode node;
    node.handle = handles[at];
    node.is_alone = is_alone[nodes->size()];
    node.after = std::move(after[at]);
    if (real->cuGraphNodeGetType(node.handle, &node.type) != CUDA_SUCCESS) return false;
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL && !get_parameters(*real, &node)) return false;
    if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) {
      CUgraph child = nullptr;
      if (depth >= most_nested || real->cuGraphChildGraphNodeGetGraph == nullptr ||
          real->cuGraphChildGraphNodeGetGraph(node.handle, &child) != CUDA_SUCCESS ||
          !read_nodes(child, &node.inner, depth + 1))
        return false;
    }
    if (is_conditional(node.type)) {
      const Bodies bodies = bodies_of(node.handle);
      node.condition = bodies.condition;
      node.condition_handle = bodies.handle;
      for (CUgraph body : bodies.graphs) {
        std::vector<GraphNode> inside;
        if (depth >= most_nested || !read_nodes(body, &inside, depth + 1)) return false;
        std::move(inside.begin(), inside.end(), std::back_inserter(node.inner));
      }
    }
    if (is_memory(node.type) && !get_memory(*real, &node)) return false;
    nodes->push_back(std::move(node));
  }
  return nodes->size() == count;
}

}  // namespace

size_t count_leaves(const std::vector<GraphNode>& nodes) noexcept {
  size_t count = 0;
  for (const GraphNode& node : nodes)
    count += node.type == CU_GRAPH_NODE_TYPE_GRAPH ? count_leaves(node.inner) : 1;
  return count;
}

bool read_graph(CUgraph graph, std::vector<GraphNode>* nodes) noexcept try {
  return read_nodes(graph, nodes, 0);
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace kerncap::cuda
