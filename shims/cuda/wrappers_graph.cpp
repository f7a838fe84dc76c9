// Graphs as they are instantiated, changed, launched and destroyed.
#include <cstring>
#include <new>
#include <vector>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/interpose.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

// Nothing of ours may show in what the target's call returns.
CUresult instantiated(CUresult result, const CUgraphExec* exec, CUgraph graph,
                      unsigned long long flags = 0) noexcept {
  if (result == CUDA_SUCCESS && exec != nullptr) track_exec(*exec, graph, flags);
  return result;
}

GraphNode* find_node(std::vector<GraphNode>* nodes, CUgraphNode handle) noexcept {
  for (GraphNode& node : *nodes) {
    if (node.handle == handle) return &node;
    if (GraphNode* found = find_node(&node.inner, handle)) return found;
  }
  return nullptr;
}

CUresult updated(CUresult result, CUgraphExec handle, CUgraph graph) noexcept try {
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  if (result == CUDA_SUCCESS && exec != nullptr) take_parameters(graph, exec.get());
  return result;
} catch (const std::bad_alloc&) {
  return result;
}

// After a call that changes one node of an exec: `change(exec, node)` follows it.
template <typename Change>
CUresult node_set(CUresult result, CUgraphExec handle, CUgraphNode node, Change&& change) noexcept try {
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  GraphNode* found = exec != nullptr ? find_node(&exec->nodes, node) : nullptr;
  if (result == CUDA_SUCCESS && found != nullptr) change(exec.get(), found);
  return result;
} catch (const std::bad_alloc&) {
  return result;
}

CUresult kernel_set(CUresult result, CUgraphExec handle, CUgraphNode node,
                    const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  return node_set(result, handle, node, [&](GraphExec* exec, GraphNode* found) {
    read_kernel_node(parameters, found);
    auto set = [](CUgraphNode twin, const void* given) {
      const Driver& real = *driver();
      return real.cuGraphKernelNodeSetParams_v2 != nullptr
                 ? real.cuGraphKernelNodeSetParams_v2(twin,
                                                      static_cast<const CUDA_KERNEL_NODE_PARAMS*>(given))
                 : real.cuGraphKernelNodeSetParams(twin,
                                                   static_cast<const CUDA_KERNEL_NODE_PARAMS_v1*>(given));
    };
    follow(exec, *found, set, &parameters);
  });
}

CUresult child_set(CUresult result, CUgraphExec handle, CUgraphNode node, CUgraph child) noexcept {
  return node_set(result, handle, node,
                  [&](GraphExec* exec, GraphNode* found) { take_child(child, found, exec); });
}

// Of a node with nothing to know but for the copy's own launches.
template <typename Parameters>
CUresult other_set(CUresult result, CUgraphExec handle, CUgraphNode node,
                   CUresult (*set)(CUgraphNode twin, const void* parameters),
                   const Parameters* parameters) noexcept {
  return node_set(result, handle, node,
                  [&](GraphExec* exec, GraphNode* found) { follow(exec, *found, set, parameters); });
}

#if CUDA_VERSION >= 12030
// No call tells later which graphs a conditional node runs.
CUresult added(CUresult result, const CUgraphNode* node, const CUgraphNodeParams* parameters) noexcept {
  if (result == CUDA_SUCCESS && parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
      parameters->conditional.phGraph_out != nullptr)
    track_bodies(*node, parameters->conditional.phGraph_out, parameters->conditional.size,
                 static_cast<Condition>(parameters->conditional.type), parameters->conditional.handle);
  return result;
}
#endif

CUresult launched(CUresult result) noexcept {
  capture::after_call(result);
  return result;
}

}  // namespace

CUresult wrap::cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                  char* logBuffer, size_t bufferSize) noexcept {
  return instantiated(driver()->cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
                      phGraphExec, hGraph);
}

CUresult wrap::cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                     char* logBuffer, size_t bufferSize) noexcept {
  return instantiated(
      driver()->cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), phGraphExec,
      hGraph);
}

CUresult wrap::cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                           unsigned long long flags) noexcept {
  return instantiated(driver()->cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags), phGraphExec, hGraph,
                      flags);
}

CUresult wrap::cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) noexcept {
  return instantiated(driver()->cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams),
                      phGraphExec, hGraph, instantiateParams != nullptr ? instantiateParams->flags : 0);
}

CUresult wrap::cuGraphInstantiateWithParams_ptsz(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) noexcept {
  return instantiated(driver()->cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams),
                      phGraphExec, hGraph, instantiateParams != nullptr ? instantiateParams->flags : 0);
}

#if CUDA_VERSION >= 12030
CUresult wrap::cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, CUgraphNodeParams* nodeParams) noexcept {
  return added(driver()->cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
               phGraphNode, nodeParams);
}

CUresult wrap::cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                 CUgraphNodeParams* nodeParams) noexcept {
  return added(driver()->cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                           nodeParams),
               phGraphNode, nodeParams);
}
#endif

CUresult wrap::cuGraphDestroy(CUgraph hGraph) noexcept {
  return keep_graph(hGraph) ? CUDA_SUCCESS : driver()->cuGraphDestroy(hGraph);
}

CUresult wrap::cuGraphExecDestroy(CUgraphExec hGraphExec) noexcept {
  gate::Pass pass;
  CUgraph kept = forget_exec(hGraphExec);
  CUresult result = driver()->cuGraphExecDestroy(hGraphExec);
  if (kept != nullptr) driver()->cuGraphDestroy(kept);
  return result;
}

CUresult wrap::cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                 CUgraphExecUpdateResult* updateResult_out) noexcept {
  return updated(driver()->cuGraphExecUpdate(hGraphExec, hGraph, hErrorNode_out, updateResult_out),
                 hGraphExec, hGraph);
}

CUresult wrap::cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                    CUgraphExecUpdateResultInfo* resultInfo) noexcept {
  return updated(driver()->cuGraphExecUpdate_v2(hGraphExec, hGraph, resultInfo), hGraphExec, hGraph);
}

CUresult wrap::cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) noexcept {
  CUresult result = driver()->cuGraphExecKernelNodeSetParams(hGraphExec, hNode, nodeParams);
  if (nodeParams == nullptr) return result;
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  std::memcpy(&parameters, nodeParams, sizeof *nodeParams);  // the newer structure begins with the older
  return kernel_set(result, hGraphExec, hNode, parameters);
}

CUresult wrap::cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS* nodeParams) noexcept {
  CUresult result = driver()->cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, nodeParams);
  return nodeParams == nullptr ? result : kernel_set(result, hGraphExec, hNode, *nodeParams);
}

CUresult wrap::cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_MEMCPY3D* copyParams, CUcontext ctx) noexcept {
  auto set = [](CUgraphNode twin, const void* given) {
    return driver()->cuGraphMemcpyNodeSetParams(twin, static_cast<const CUDA_MEMCPY3D*>(given));
  };
  return other_set(driver()->cuGraphExecMemcpyNodeSetParams(hGraphExec, hNode, copyParams, ctx), hGraphExec,
                   hNode, set, copyParams);
}

CUresult wrap::cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                              CUcontext ctx) noexcept {
  auto set = [](CUgraphNode twin, const void* given) {
    return driver()->cuGraphMemsetNodeSetParams(twin, static_cast<const CUDA_MEMSET_NODE_PARAMS*>(given));
  };
  return other_set(driver()->cuGraphExecMemsetNodeSetParams(hGraphExec, hNode, memsetParams, ctx), hGraphExec,
                   hNode, set, memsetParams);
}

CUresult wrap::cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_HOST_NODE_PARAMS* nodeParams) noexcept {
  auto set = [](CUgraphNode twin, const void* given) {
    return driver()->cuGraphHostNodeSetParams(twin, static_cast<const CUDA_HOST_NODE_PARAMS*>(given));
  };
  return other_set(driver()->cuGraphExecHostNodeSetParams(hGraphExec, hNode, nodeParams), hGraphExec, hNode,
                   set, nodeParams);
}

CUresult wrap::cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  CUgraph childGraph) noexcept {
  return child_set(driver()->cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, childGraph), hGraphExec,
                   hNode, childGraph);
}

CUresult wrap::cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  CUevent event) noexcept {
  auto set = [](CUgraphNode twin, const void* given) {
    return driver()->cuGraphEventRecordNodeSetEvent(twin, *static_cast<const CUevent*>(given));
  };
  return other_set(driver()->cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event), hGraphExec, hNode,
                   set, &event);
}

CUresult wrap::cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                CUevent event) noexcept {
  auto set = [](CUgraphNode twin, const void* given) {
    return driver()->cuGraphEventWaitNodeSetEvent(twin, *static_cast<const CUevent*>(given));
  };
  return other_set(driver()->cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event), hGraphExec, hNode,
                   set, &event);
}

#if CUDA_VERSION >= 12020
CUresult wrap::cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        CUgraphNodeParams* nodeParams) noexcept {
  CUresult result = driver()->cuGraphExecNodeSetParams(hGraphExec, hNode, nodeParams);
  if (nodeParams == nullptr) return result;
  if (nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS parameters = {};
    static_assert(sizeof parameters == sizeof nodeParams->kernel, "the same fields under two names");
    std::memcpy(&parameters, &nodeParams->kernel, sizeof parameters);
    return kernel_set(result, hGraphExec, hNode, parameters);
  }
  if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return child_set(result, hGraphExec, hNode, nodeParams->graph.graph);
  auto set = [](CUgraphNode twin, const void* given) {
    CUgraphNodeParams copy = *static_cast<const CUgraphNodeParams*>(given);
    return driver()->cuGraphNodeSetParams(twin, &copy);
  };
  return other_set(result, hGraphExec, hNode, set, nodeParams);
}
#endif

CUresult wrap::cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                     unsigned int isEnabled) noexcept {
  CUresult result = driver()->cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled);
  return node_set(result, hGraphExec, hNode,
                  [&](GraphExec*, GraphNode* node) { node->enabled = isEnabled != 0; });
}

CUresult wrap::cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) noexcept {
  return launched(launch_graph(hGraph, hStream, false));
}

CUresult wrap::cuGraphLaunch_ptsz(CUgraphExec hGraph, CUstream hStream) noexcept {
  return launched(launch_graph(hGraph, hStream, true));
}

}  // namespace kerncap::cuda
