// Nodes: adding them, reading and changing their parameters, in a graph or in an instance.
#include <cstring>

#include "memory.h"

using namespace rig;

namespace {

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, size_t count, Work work) {
  if (CUresult error = enter_without_context()) return error;
  auto* graph = as<Graph>(handle, Magic::graph);
  if (!graph || graph->gone || !out || (count && !after)) return CUDA_ERROR_INVALID_VALUE;
  auto* node = new GraphNode;
  node->graph = graph;
  node->work = std::move(work);
  for (size_t i = 0; i < count; ++i) {
    auto* dependency = as<GraphNode>(after[i], Magic::node);
    if (!dependency || dependency->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    node->after.push_back(dependency);
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  graph->nodes.push_back(node);
  *out = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

CUresult find_node(CUgraphNode handle, CUgraphNodeType type, GraphNode** node) {
  if (CUresult error = enter_without_context()) return error;
  *node = as<GraphNode>(handle, Magic::node);
  return *node && !(*node)->gone && (*node)->work.type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_in_exec(CUgraphExec handle, CUgraphNode source, CUgraphNodeType type, GraphNode** node) {
  if (CUresult error = enter_without_context()) return error;
  auto* exec = as<GraphExec>(handle, Magic::graph_exec);
  if (!exec || exec->gone) return CUDA_ERROR_INVALID_VALUE;
  auto found = exec->by_source.find(as<GraphNode>(source, Magic::node));
  if (found == exec->by_source.end() || found->second->work.type != type) return CUDA_ERROR_INVALID_VALUE;
  *node = found->second;
  return CUDA_SUCCESS;
}

CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS_v2& p, Work* work) {
  Context* context = p.ctx ? as<Context>(p.ctx, Magic::context) : current_context();
  if (CUresult error = usable(context)) return error;
  auto handle = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
  unsigned grid[3] = {p.gridDimX, p.gridDimY, p.gridDimZ}, block[3] = {p.blockDimX, p.blockDimY, p.blockDimZ};
  std::vector<CUlaunchAttribute> attributes = work->kernel.attributes;
  KernelWork kernel;
  if (CUresult error =
          make_kernel_work(context, handle, grid, block, p.sharedMemBytes, p.kernelParams, p.extra, &kernel))
    return error;
  kernel.attributes = attributes;
  std::memcpy(kernel.cluster, work->kernel.cluster, sizeof kernel.cluster);
  kernel.cooperative = work->kernel.cooperative;
  work->type = CU_GRAPH_NODE_TYPE_KERNEL;
  work->kernel = std::move(kernel);
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS_v2 widened(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = {};
  std::memcpy(static_cast<void*>(&wide), &p, sizeof p);
  return wide;
}

// The pointers lead into the node: valid until it changes, as with the real driver.
void describe(GraphNode* node, CUDA_KERNEL_NODE_PARAMS_v2* p) {
  KernelWork& kernel = node->work.kernel;
  *p = {};
  if (as<Kernel>(kernel.handle, Magic::kernel))
    p->kern = reinterpret_cast<CUkernel>(kernel.handle);
  else
    p->func = kernel.handle;
  p->gridDimX = kernel.grid[0], p->gridDimY = kernel.grid[1], p->gridDimZ = kernel.grid[2];
  p->blockDimX = kernel.block[0], p->blockDimY = kernel.block[1], p->blockDimZ = kernel.block[2];
  p->sharedMemBytes = kernel.shared_bytes;
  node->parameter_pointers.clear();
  for (const ParameterLayout& layout : kernel.function->image->parameters)
    node->parameter_pointers.push_back(kernel.parameters.data() + layout.offset);
  p->kernelParams = node->parameter_pointers.data();
  p->ctx = reinterpret_cast<CUcontext>(kernel.function->module->context);
}

Work memcpy_work(const CUDA_MEMCPY3D& copy) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.copy = copy;
  return work;
}

Work memset_work(const CUDA_MEMSET_NODE_PARAMS_v1& memset) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.memset = memset;
  return work;
}

Work host_work(CUhostFn function, void* data) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.host = function;
  work.data = data;
  return work;
}

// What a child graph node is given is copied; memory nodes could only be moved, conditional ones not even
// that.
CUresult child_work(CUgraph handle, Work* work) {
  auto* child = as<Graph>(handle, Magic::graph);
  if (!child || child->gone) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(child) || has_node(child, CU_GRAPH_NODE_TYPE_CONDITIONAL))
    return CUDA_ERROR_NOT_SUPPORTED;
  *work = Work();
  work->type = CU_GRAPH_NODE_TYPE_GRAPH;
  work->child = clone_graph(child, nullptr);
  return CUDA_SUCCESS;
}

CUresult event_work(CUgraphNodeType type, CUevent handle, Work* work) {
  *work = Work();
  work->type = type;
  work->event = as<Event>(handle, Magic::event);
  return work->event && !work->event->gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// The address is the node's for as long as it lives.
CUresult allocation_work(CUDA_MEM_ALLOC_NODE_PARAMS* p, Work* work) {
  Allocation allocation;
  allocation.size = p->bytesize;
  allocation.context = current_context();
  allocation.is_hidden = true;
  if (CUresult error = Memory::instance().allocate(&allocation)) return error;
  work->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  work->pointer = p->dptr = allocation.base;
  work->bytes = p->bytesize;
  return CUDA_SUCCESS;
}

CUresult conditional_work(CUDA_CONDITIONAL_NODE_PARAMS* p, Work* work) {
  const unsigned most = p->type == CU_GRAPH_COND_TYPE_WHILE ? 1 : p->type == CU_GRAPH_COND_TYPE_IF ? 2 : ~0U;
  work->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  work->condition = as<Condition>(reinterpret_cast<void*>(p->handle), Magic::condition);
  work->branching = p->type;
  if (!work->condition || p->size == 0 || p->size > most) return CUDA_ERROR_INVALID_VALUE;
  p->phGraph_out = new CUgraph[p->size];  // the node's, for as long as it lives
  for (unsigned i = 0; i < p->size; ++i) {
    work->bodies.push_back(new Graph);
    p->phGraph_out[i] = reinterpret_cast<CUgraph>(work->bodies.back());
  }
  return CUDA_SUCCESS;
}

CUresult set_attribute(GraphNode* node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue& value) {
  KernelWork& kernel = node->work.kernel;
  CUlaunchAttribute attribute = {};
  attribute.id = id;
  attribute.value = value;
  bool known = false;
  for (CUlaunchAttribute& old : kernel.attributes)
    if (old.id == id) old = attribute, known = true;
  if (!known) kernel.attributes.push_back(attribute);
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) kernel.cooperative = value.cooperative != 0;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    kernel.cluster[0] = value.clusterDim.x;
    kernel.cluster[1] = value.clusterDim.y;
    kernel.cluster[2] = value.clusterDim.z;
  }
  return CUDA_SUCCESS;
}

CUresult work_of(CUgraphNodeParams& p, Work* work) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v2 kernel = {};
      kernel.func = p.kernel.func, kernel.kern = p.kernel.kern, kernel.ctx = p.kernel.ctx;
      kernel.gridDimX = p.kernel.gridDimX, kernel.gridDimY = p.kernel.gridDimY,
      kernel.gridDimZ = p.kernel.gridDimZ;
      kernel.blockDimX = p.kernel.blockDimX, kernel.blockDimY = p.kernel.blockDimY;
      kernel.blockDimZ = p.kernel.blockDimZ, kernel.sharedMemBytes = p.kernel.sharedMemBytes;
      kernel.kernelParams = p.kernel.kernelParams, kernel.extra = p.kernel.extra;
      return kernel_work(kernel, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      *work = memcpy_work(p.memcpy.copyParams);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      *work = memset_work({p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize, p.memset.width,
                           p.memset.height});
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
      *work = host_work(p.host.fn, p.host.userData);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *work = Work();
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_work(p.graph.graph, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_work(p.type, p.eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return allocation_work(reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(&p.alloc), work);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return conditional_work(&p.conditional, work);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult set_work(CUgraphNode handle, Work work) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, work.type, &node)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult set_in_exec(CUgraphExec exec, CUgraphNode source, Work work) {
  GraphNode* node = nullptr;
  if (CUresult error = find_in_exec(exec, source, work.type, &node)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

}  // namespace

RIG_API cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                const CUDA_KERNEL_NODE_PARAMS_v2* p) {
  Work work;
  if (CUresult error = kernel_work(*p, &work)) return error;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                             const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = widened(*p);
  return cuGraphAddKernelNode_v2(out, graph, after, count, &wide);
}
RIG_API cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2* p) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  describe(node, p);
  return CUDA_SUCCESS;
}
RIG_API cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide;
  if (CUresult error = cuGraphKernelNodeGetParams_v2(handle, &wide)) return error;
  if (!wide.func) wide.func = reinterpret_cast<CUfunction>(wide.kern);
  std::memcpy(static_cast<void*>(p), &wide, sizeof *p);
  return CUDA_SUCCESS;
}
RIG_API cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v2* p) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node)) return error;
  return kernel_work(*p, &node->work);
}
RIG_API cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = widened(*p);
  return cuGraphKernelNodeSetParams_v2(handle, &wide);
}
RIG_API cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode source,
                                          const CUDA_KERNEL_NODE_PARAMS_v2* p) {
  GraphNode* node = nullptr;
  if (CUresult error = find_in_exec(exec, source, CU_GRAPH_NODE_TYPE_KERNEL, &node)) return error;
  Work work = node->work;
  if (CUresult error = kernel_work(*p, &work)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  node->work = std::move(work);
  return CUDA_SUCCESS;
}
RIG_API cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode source,
                                       const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = widened(*p);
  return cuGraphExecKernelNodeSetParams_v2(exec, source, &wide);
}
RIG_API cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                      CUkernelNodeAttrValue* value) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node)) return error;
  *value = {};
  for (const CUlaunchAttribute& attribute : node->work.kernel.attributes)
    if (attribute.id == id) *value = attribute.value;
  // A cooperative launch has no attribute of its own.
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = node->work.kernel.cooperative;
  return CUDA_SUCCESS;
}
RIG_API cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                      const CUkernelNodeAttrValue* value) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node)) return error;
  return set_attribute(node, id, *value);
}
RIG_API cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  GraphNode *target = nullptr, *source = nullptr;
  if (CUresult error = find_node(to, CU_GRAPH_NODE_TYPE_KERNEL, &target)) return error;
  if (CUresult error = find_node(from, CU_GRAPH_NODE_TYPE_KERNEL, &source)) return error;
  for (const CUlaunchAttribute& attribute : source->work.kernel.attributes)
    set_attribute(target, attribute.id, attribute.value);
  return CUDA_SUCCESS;
}

RIG_API cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                             const CUDA_MEMCPY3D* copy, CUcontext) {
  return add(out, graph, after, count, memcpy_work(*copy));
}
RIG_API cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* copy) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_MEMCPY, &node)) return error;
  *copy = node->work.copy;
  return CUDA_SUCCESS;
}
RIG_API cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode source, const CUDA_MEMCPY3D* copy,
                                       CUcontext) {
  return set_in_exec(exec, source, memcpy_work(*copy));
}
RIG_API cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                             const CUDA_MEMSET_NODE_PARAMS* memset, CUcontext) {
  return add(out, graph, after, count, memset_work(*memset));
}
RIG_API cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* memset) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_MEMSET, &node)) return error;
  *memset = node->work.memset;
  return CUDA_SUCCESS;
}
RIG_API cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode source,
                                       const CUDA_MEMSET_NODE_PARAMS* memset, CUcontext) {
  return set_in_exec(exec, source, memset_work(*memset));
}
RIG_API cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                           const CUDA_HOST_NODE_PARAMS* p) {
  return add(out, graph, after, count, host_work(p->fn, p->userData));
}
RIG_API cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* p) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_HOST, &node)) return error;
  p->fn = node->work.host;
  p->userData = node->work.data;
  return CUDA_SUCCESS;
}
RIG_API cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* copy) {
  return set_work(handle, memcpy_work(*copy));
}
RIG_API cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* memset) {
  return set_work(handle, memset_work(*memset));
}
RIG_API cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS* p) {
  return set_work(handle, host_work(p->fn, p->userData));
}
RIG_API cuGraphEventRecordNodeSetEvent(CUgraphNode handle, CUevent event) {
  Work work;
  if (CUresult error = event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work)) return error;
  return set_work(handle, std::move(work));
}
RIG_API cuGraphEventWaitNodeSetEvent(CUgraphNode handle, CUevent event) {
  Work work;
  if (CUresult error = event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work)) return error;
  return set_work(handle, std::move(work));
}
RIG_API cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* p) {
  if (p->type == CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_NOT_SUPPORTED;
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, p->type, &node)) return error;
  Work work = node->work;
  if (CUresult error = work_of(*p, &work)) return error;
  return set_work(handle, std::move(work));
}
RIG_API cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode source, const CUDA_HOST_NODE_PARAMS* p) {
  return set_in_exec(exec, source, host_work(p->fn, p->userData));
}
RIG_API cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode source, CUevent event) {
  Work work;
  if (CUresult error = event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work)) return error;
  return set_in_exec(exec, source, std::move(work));
}
RIG_API cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode source, CUevent event) {
  Work work;
  if (CUresult error = event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work)) return error;
  return set_in_exec(exec, source, std::move(work));
}
RIG_API cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode source, CUgraph child) {
  GraphNode* node = nullptr;
  if (CUresult error = find_in_exec(exec, source, CU_GRAPH_NODE_TYPE_GRAPH, &node)) return error;
  auto* given = as<Graph>(child, Magic::graph);
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  return take_work(node->work.child, given);
}
RIG_API cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count) {
  return add(out, graph, after, count, Work());
}
RIG_API cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                 CUgraph child) {
  Work work;
  if (CUresult error = child_work(child, &work)) return error;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_GRAPH, &node)) return error;
  *out = reinterpret_cast<CUgraph>(node->work.child);
  return CUDA_SUCCESS;
}
RIG_API cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                  CUevent event) {
  Work work;
  if (CUresult error = event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work)) return error;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                CUevent event) {
  Work work;
  if (CUresult error = event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work)) return error;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                               CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  Work work;
  if (CUresult error = allocation_work(p, &work)) return error;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node)) return error;
  *p = {};
  p->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p->dptr = node->work.pointer;
  p->bytesize = node->work.bytes;
  return CUDA_SUCCESS;
}
RIG_API cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* address) {
  GraphNode* node = nullptr;
  if (CUresult error = find_node(handle, CU_GRAPH_NODE_TYPE_MEM_FREE, &node)) return error;
  *address = node->work.pointer;
  return CUDA_SUCCESS;
}
RIG_API cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                              CUdeviceptr address) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work.pointer = address;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph, CUcontext,
                                       unsigned default_value, unsigned flags) {
  auto* condition = new Condition;
  condition->standard = default_value;
  condition->is_assigned = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
  *out = reinterpret_cast<CUgraphConditionalHandle>(condition);
  return CUDA_SUCCESS;
}

RIG_API cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData*,
                          size_t count, CUgraphNodeParams* p) {
  Work work;
  if (CUresult error = work_of(*p, &work)) return error;
  return add(out, graph, after, count, std::move(work));
}
RIG_API cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                       CUgraphNodeParams* p) {
  return cuGraphAddNode_v2(out, graph, after, nullptr, count, p);
}
RIG_API cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode source, CUgraphNodeParams* p) {
  GraphNode* node = nullptr;
  if (CUresult error = find_in_exec(exec, source, p->type, &node)) return error;
  if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return cuGraphExecChildGraphNodeSetParams(exec, source, p->graph.graph);
  Work work = node->work;
  if (CUresult error = work_of(*p, &work)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  node->work = std::move(work);
  return CUDA_SUCCESS;
}
