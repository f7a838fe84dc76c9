// Graphs as they are instantiated, changed, launched and destroyed.
#include <algorithm>
#include <cstring>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/interpose.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

CUresult instantiated(CUresult result, const CUgraphExec* exec, CUgraph graph) noexcept {
  if (result == CUDA_SUCCESS && exec != nullptr) track_exec(*exec, graph);
  return result;
}

GraphNode* find_node(GraphExec* exec, CUgraphNode handle) noexcept {
  if (exec == nullptr) return nullptr;
  for (GraphNode& node : exec->nodes)
    if (node.handle == handle) return &node;
  return nullptr;
}

// The exec keeps its own node handles and takes the parameters of the nodes at their places in the other
// graph; which place is whose the driver decides by the same order of dependencies.
void take_parameters(GraphExec* exec, CUgraph graph) noexcept {
  std::vector<GraphNode> fresh;
  bool same = read_graph(graph, &fresh) && fresh.size() == exec->nodes.size();
  for (size_t i = 0; same && i < fresh.size(); ++i)
    same = fresh[i].type == exec->nodes[i].type &&
           (fresh[i].launch.kernel == nullptr) == (exec->nodes[i].launch.kernel == nullptr);
  if (!same) {
    exec->refusal = "its graph was updated with another one whose nodes can't be distinguished";
    return;
  }
  for (size_t i = 0; i < fresh.size(); ++i) {
    exec->nodes[i].launch = fresh[i].launch;
    exec->nodes[i].trouble = fresh[i].trouble;
  }
}

CUresult updated(CUresult result, CUgraphExec handle, CUgraph graph) noexcept {
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  if (result == CUDA_SUCCESS && exec != nullptr) take_parameters(exec.get(), graph);
  return result;
}

CUresult node_set(CUresult result, CUgraphExec handle, CUgraphNode node,
                  const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  GraphNode* found = find_node(exec.get(), node);
  if (result == CUDA_SUCCESS && found != nullptr) read_kernel_node(parameters, found);
  return result;
}

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
  return instantiated(driver()->cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags), phGraphExec, hGraph);
}

CUresult wrap::cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) noexcept {
  return instantiated(driver()->cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams),
                      phGraphExec, hGraph);
}

CUresult wrap::cuGraphInstantiateWithParams_ptsz(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) noexcept {
  return instantiated(driver()->cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams),
                      phGraphExec, hGraph);
}

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
  return node_set(result, hGraphExec, hNode, parameters);
}

CUresult wrap::cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS* nodeParams) noexcept {
  CUresult result = driver()->cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, nodeParams);
  return nodeParams == nullptr ? result : node_set(result, hGraphExec, hNode, *nodeParams);
}

#if CUDA_VERSION >= 12020
CUresult wrap::cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        CUgraphNodeParams* nodeParams) noexcept {
  CUresult result = driver()->cuGraphExecNodeSetParams(hGraphExec, hNode, nodeParams);
  if (nodeParams == nullptr || nodeParams->type != CU_GRAPH_NODE_TYPE_KERNEL) return result;
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  static_assert(sizeof parameters == sizeof nodeParams->kernel, "the same fields under two names");
  std::memcpy(&parameters, &nodeParams->kernel, sizeof parameters);
  return node_set(result, hGraphExec, hNode, parameters);
}
#endif

CUresult wrap::cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                     unsigned int isEnabled) noexcept {
  CUresult result = driver()->cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled);
  std::shared_ptr<GraphExec> exec = exec_of(hGraphExec);
  GraphNode* node = find_node(exec.get(), hNode);
  if (result == CUDA_SUCCESS && node != nullptr) node->enabled = isEnabled != 0;
  return result;
}

CUresult wrap::cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) noexcept {
  return launched(launch_graph(hGraph, hStream, false));
}

CUresult wrap::cuGraphLaunch_ptsz(CUgraphExec hGraph, CUstream hStream) noexcept {
  return launched(launch_graph(hGraph, hStream, true));
}

}  // namespace kerncap::cuda
