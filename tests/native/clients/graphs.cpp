// Kernels in graphs: captured from a stream, built by hand, with other nodes between them.
#include <unistd.h>

#include <string>
#include <thread>

#include "client.h"

namespace {

constexpr int n = 400;

struct Program {
  CUstream stream;
  CUfunction scale = load(PTX_HEAD PTX_SCALE PTX_VECTOR_ADD PTX_INCREMENT, SCALE), add, increment;
  CUdeviceptr x = upload(ramp(n)), y = upload(ramp(n, 2)), out = allocate(n * sizeof(float));
  CUdeviceptr count_of_runs = upload(std::vector<int>{0});
  float factor = 1.5f;
  int count = n;

  Program() {
    CUmodule module;
    CHECK(cuFuncGetModule(&module, scale));
    CHECK(cuModuleGetFunction(&add, module, VECTOR_ADD));
    CHECK(cuModuleGetFunction(&increment, module, INCREMENT));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }

  // x *= 1.5; runs += 1; out = x + y; x *= 1.5
  void enqueue(bool with_host_node) {
    launch(scale, 2, 256, {&x, &factor, &count}, stream);
    launch(increment, 1, 1, {&count_of_runs}, stream);
    if (with_host_node)
      CHECK(cuLaunchHostFunc(stream, [](void* calls) { ++*static_cast<int*>(calls); }, &host_calls));
    launch(add, 2, 256, {&x, &y, &out, &count}, stream);
    launch(scale, 2, 256, {&x, &factor, &count}, stream);
  }

  CUgraph captured(bool with_host_node = false) {
    CUgraph graph;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    enqueue(with_host_node);
    CHECK(cuStreamEndCapture(stream, &graph));
    return graph;
  }

  void run(CUgraph graph, int times, unsigned long long flags = 0) {
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, graph, flags));
    for (int i = 0; i < times; ++i) CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
  }

  void print() {
    report("x", download<float>(x, n));
    report("out", download<float>(out, n));
    report("runs", download<int>(count_of_runs, 1));
    std::printf("host calls %d\n", host_calls);
  }

  int host_calls = 0;
};

// A memset, a copy and kernels, as a diamond, built by hand; then changed in the instance.
void explicit_graph(Program& p) {
  CUgraph graph;
  CUgraphNode clear, copy, first, second, join;
  CHECK(cuGraphCreate(&graph, 0));
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  CUDA_MEMSET_NODE_PARAMS memset = {};
  memset.dst = p.out, memset.elementSize = 4, memset.width = n, memset.height = 1;
  CHECK(cuGraphAddMemsetNode(&clear, graph, nullptr, 0, &memset, context));
  void* scale_parameters[] = {&p.x, &p.factor, &p.count};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = p.scale;
  kernel.gridDimX = 2, kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.blockDimX = 256;
  kernel.kernelParams = scale_parameters;
  CHECK(cuGraphAddKernelNode(&first, graph, &clear, 1, &kernel));
  CUDA_MEMCPY3D duplicate = {};
  duplicate.srcMemoryType = duplicate.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  duplicate.srcDevice = p.y, duplicate.dstDevice = p.out;
  duplicate.WidthInBytes = n * sizeof(float), duplicate.Height = duplicate.Depth = 1;
  CHECK(cuGraphAddMemcpyNode(&copy, graph, &clear, 1, &duplicate, context));
  CUgraphNode both[] = {first, copy};
  CHECK(cuGraphAddEmptyNode(&join, graph, both, 2));
  void* add_parameters[] = {&p.x, &p.out, &p.out, &p.count};
  kernel.func = p.add;
  kernel.kernelParams = add_parameters;
  CHECK(cuGraphAddKernelNode(&second, graph, &join, 1, &kernel));
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, p.stream));
  void* changed[] = {&p.y, &p.out, &p.out, &p.count};
  kernel.kernelParams = changed;
  CHECK(cuGraphExecKernelNodeSetParams(exec, second, &kernel));
  CHECK(cuGraphLaunch(exec, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
}

void child_graph(Program& p) {
  CUgraph inner = p.captured(), outer;
  CUgraphNode node;
  CHECK(cuGraphCreate(&outer, 0));
  CHECK(cuGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
  p.run(outer, 2);
}

CUgraph new_graph() {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  return graph;
}

CUgraphNode add_kernel(CUgraph graph, std::vector<CUgraphNode> after, CUfunction function,
                       std::vector<void*> parameters, unsigned grid = 2, unsigned block = 256) {
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = function;
  kernel.gridDimX = grid, kernel.blockDimX = block;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters.data();
  CUgraphNode node;
  CHECK(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &kernel));
  return node;
}

CUDA_MEMSET_NODE_PARAMS filled(CUdeviceptr what, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS memset = {};
  memset.dst = what, memset.value = value, memset.elementSize = 4, memset.width = n, memset.height = 1;
  return memset;
}

CUDA_MEMCPY3D copied(CUdeviceptr from, CUdeviceptr to) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from, copy.dstDevice = to;
  copy.WidthInBytes = n * sizeof(float), copy.Height = copy.Depth = 1;
  return copy;
}

void tenfold(void* calls) {
  *static_cast<int*>(calls) *= 10;
}
void counted(void* calls) {
  ++*static_cast<int*>(calls);
}

// Each kind of node that can be copied, three graphs deep, two kernels in each; every order of two of
// them gives other numbers.
struct Nested {
  Program& p;
  CUcontext context = nullptr;
  CUevent event, other;
  CUgraph inner = new_graph(), middle = new_graph(), outer = new_graph();
  CUgraphNode fill, copy, host, record, wait, deep, below, scale, add, first, last;

  explicit Nested(Program& program) : p(program) {
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    // out = x + y; x *= 1.5
    add = add_kernel(inner, {}, p.add, {&p.x, &p.y, &p.out, &p.count});
    scale = add_kernel(inner, {add}, p.scale, {&p.x, &p.factor, &p.count});
    CUDA_HOST_NODE_PARAMS counting = {counted, &p.host_calls};
    CHECK(cuGraphAddHostNode(&host, middle, nullptr, 0, &counting));
    CHECK(cuGraphAddChildGraphNode(&deep, middle, &host, 1, inner));
    CHECK(cuGraphAddEventRecordNode(&record, middle, &deep, 1, event));
    add_kernel(middle, {record}, p.increment, {&p.count_of_runs}, 1, 1);
    CUDA_MEMSET_NODE_PARAMS memset = filled(p.x, 0x3f800000);
    CHECK(cuGraphAddMemsetNode(&fill, outer, nullptr, 0, &memset, context));
    first = add_kernel(outer, {fill}, p.scale, {&p.x, &p.factor, &p.count});
    CHECK(cuGraphAddChildGraphNode(&below, outer, &first, 1, middle));
    CHECK(cuGraphAddEventWaitNode(&wait, outer, &below, 1, event));
    CUDA_MEMCPY3D duplicate = copied(p.out, p.y);
    CHECK(cuGraphAddMemcpyNode(&copy, outer, &wait, 1, &duplicate, context));
    last = add_kernel(outer, {copy}, p.add, {&p.x, &p.y, &p.out, &p.count});
  }
};

void nested(Program& p) {
  Nested graphs(p);
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graphs.outer, 0));
  // What was instantiated is as it was: the graphs may change and go.
  CHECK(cuGraphDestroyNode(graphs.last));
  for (CUgraph graph : {graphs.inner, graphs.middle, graphs.outer}) CHECK(cuGraphDestroy(graph));
  for (int i = 0; i < 2; ++i) CHECK(cuGraphLaunch(exec, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuEventQuery(graphs.event));
  CHECK(cuGraphExecDestroy(exec));
}

// An exec's parameters are those that it was given last, one node at a time, a child graph as a whole, or
// all of them.
void updated(Program& p, bool as_a_whole) {
  Nested graphs(p), fresh(p);
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graphs.outer, 0));
  CHECK(cuGraphLaunch(exec, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  float factor = 3;
  CUDA_MEMSET_NODE_PARAMS memset = filled(p.x, 0x40000000);
  CUDA_MEMCPY3D duplicate = copied(p.x, p.y);
  CUDA_HOST_NODE_PARAMS tenfolding = {tenfold, &p.host_calls};
  void* parameters[] = {&p.y, &p.x, &p.out, &p.count};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = p.add;
  kernel.gridDimX = 2, kernel.blockDimX = 256;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  if (as_a_whole) {
    CUgraph target = new_graph();
    CUgraphNode fill, first, below, wait, copy;
    CHECK(cuGraphAddMemsetNode(&fill, target, nullptr, 0, &memset, graphs.context));
    first = add_kernel(target, {fill}, p.scale, {&p.x, &factor, &p.count});
    CHECK(cuGraphAddChildGraphNode(&below, target, &first, 1, fresh.middle));
    CHECK(cuGraphAddEventWaitNode(&wait, target, &below, 1, fresh.event));
    CHECK(cuGraphAddMemcpyNode(&copy, target, &wait, 1, &duplicate, graphs.context));
    add_kernel(target, {copy}, p.add, {&p.y, &p.x, &p.out, &p.count});
    CUgraphExecUpdateResultInfo info;
    CHECK(cuGraphExecUpdate(exec, target, &info));
    CHECK(cuGraphDestroy(target));
  } else {
    CHECK(cuGraphExecMemsetNodeSetParams(exec, graphs.fill, &memset, graphs.context));
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, graphs.copy, &duplicate, graphs.context));
    CHECK(cuGraphExecKernelNodeSetParams(exec, graphs.last, &kernel));
    CHECK(cuGraphExecEventWaitNodeSetEvent(exec, graphs.wait, graphs.other));
    CHECK(cuGraphNodeSetEnabled(exec, graphs.first, 0));
    // The middle graph with another factor, another callback and another event.
    CUgraph child = new_graph(), deepest = new_graph();
    CUgraphNode host, deep, record, add = add_kernel(deepest, {}, p.add, {&p.x, &p.y, &p.out, &p.count});
    add_kernel(deepest, {add}, p.scale, {&p.x, &factor, &p.count});
    CHECK(cuGraphAddHostNode(&host, child, nullptr, 0, &tenfolding));
    CHECK(cuGraphAddChildGraphNode(&deep, child, &host, 1, deepest));
    CHECK(cuGraphAddEventRecordNode(&record, child, &deep, 1, graphs.other));
    add_kernel(child, {record}, p.increment, {&p.count_of_runs}, 1, 1);
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, graphs.below, child));
    CHECK(cuGraphDestroy(child));
    CHECK(cuGraphDestroy(deepest));
  }
  CHECK(cuGraphLaunch(exec, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  CHECK(cuGraphExecDestroy(exec));
}

CUdeviceptr add_allocation(CUgraph graph, CUgraphNode* node) {
  CUDA_MEM_ALLOC_NODE_PARAMS own = {};
  own.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  own.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  own.bytesize = n * sizeof(float);
  CHECK(cuGraphAddMemAllocNode(node, graph, nullptr, 0, &own));
  return own.dptr;
}

// One graph's memory is read and freed by another.
void memory_between(Program& p) {
  CUgraph first = new_graph(), second = new_graph();
  CUgraphNode allocation, release;
  CUdeviceptr own = add_allocation(first, &allocation);
  add_kernel(first, {allocation}, p.add, {&p.x, &p.y, &own, &p.count});
  CUgraphNode last = add_kernel(second, {}, p.add, {&own, &p.y, &p.out, &p.count});
  CHECK(cuGraphAddMemFreeNode(&release, second, &last, 1, own));
  p.run(first, 1);
  p.run(second, 1);
}

// Memory of the graph's own, whose contents end with each launch; with another node beside or behind it.
void memory_nodes(Program& p, const std::string& with) {
  CUgraph graph = new_graph();
  CUgraphNode allocation, release;
  CUdeviceptr own = add_allocation(graph, &allocation);
  if (with == "beside") add_kernel(graph, {}, p.increment, {&p.count_of_runs}, 1, 1);
  CUgraphNode first = add_kernel(graph, {allocation}, p.add, {&p.x, &p.y, &own, &p.count});
  CUgraphNode second = add_kernel(graph, {first}, p.scale, {&own, &p.factor, &p.count});
  CUgraphNode third = add_kernel(graph, {second}, p.add, {&own, &p.y, &p.out, &p.count});
  CUDA_HOST_NODE_PARAMS counting = {counted, &p.host_calls};
  CUgraphNode host;
  if (with == "host") CHECK(cuGraphAddHostNode(&host, graph, &third, 1, &counting));
  CHECK(cuGraphAddMemFreeNode(&release, graph, &third, 1, own));
  p.run(graph, 2);
}

// A graph with memory of its own, in which a kernel waits until the host sets a flag.
struct Waiting {
  Program& p;
  CUgraph graph = new_graph();
  CUgraphNode second, third;
  CUgraphExec exec;
  int* flag;

  explicit Waiting(Program& program) : p(program) {
    CUfunction wait = load(PTX_HEAD PTX_WAIT_FOR_FLAG, WAIT_FOR_FLAG);
    void* memory;
    CHECK(cuMemAllocHost(&memory, 64));
    std::memset(memory, 0, 64);
    flag = static_cast<int*>(memory);
    auto address = reinterpret_cast<CUdeviceptr>(memory);
    CUgraphNode allocation, release;
    CUdeviceptr own = add_allocation(graph, &allocation);
    CUgraphNode first = add_kernel(graph, {allocation}, p.add, {&p.x, &p.y, &own, &p.count});
    second = add_kernel(graph, {first}, wait, {&address, &p.count_of_runs}, 1, 1);
    third = add_kernel(graph, {second}, p.scale, {&own, &p.factor, &p.count});
    CUgraphNode last = add_kernel(graph, {third}, p.add, {&own, &p.y, &p.out, &p.count});
    CHECK(cuGraphAddMemFreeNode(&release, graph, &last, 1, own));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
  }
  bool has_come() const { return __atomic_load_n(flag + 1, __ATOMIC_ACQUIRE) != 0; }
  void set_flag() { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }
};

// The flag is set by a thread that launches something before it does.
void waits_for_thread(Program& p) {
  launch(p.increment, 1, 1, {&p.count_of_runs}, p.stream);
  Waiting waiting(p);
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  std::thread setter([&] {
    CHECK(cuCtxSetCurrent(context));
    CUdeviceptr own_count = upload(std::vector<int>{0});
    while (!waiting.has_come()) std::this_thread::yield();
    CUstream other;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    launch(p.increment, 1, 1, {&own_count}, other);
    CHECK(cuStreamSynchronize(other));
    waiting.set_flag();
  });
  CHECK(cuGraphLaunch(waiting.exec, p.stream));
  CHECK(cuStreamSynchronize(p.stream));
  setter.join();
}

// The flag is set by the thread that launches the graph, at once or after a launch that a stopped graph makes
// wait; or by nobody, and the program ends.
void waits_for_launcher(Program& p, const std::string& then) {
  launch(p.increment, 1, 1, {&p.count_of_runs}, p.stream);
  Waiting waiting(p);
  CHECK(cuGraphLaunch(waiting.exec, p.stream));
  if (then == "end") {
    std::printf("launched\n");
    std::exit(3);
  }
  if (then == "launch") {
    CUstream other;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUdeviceptr own_count = upload(std::vector<int>{0});
    launch(p.increment, 1, 1, {&own_count}, other);
  }
  while (!waiting.has_come()) std::this_thread::yield();
  waiting.set_flag();
  CHECK(cuStreamSynchronize(p.stream));
}

// What a program may do as soon as its launch has returned, before the graph has ended.
void changed_after_launch(Program& p) {
  Waiting waiting(p);
  waiting.set_flag();
  CUdeviceptr own = 0;
  CHECK(cuGraphLaunch(waiting.exec, p.stream));
  // The same kernel beside the graph, behind it on the stream.
  launch(p.scale, 2, 256, {&p.x, &p.factor, &p.count}, p.stream);
  float factor = 7;
  void* changed[] = {&p.x, &factor, &p.count};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = p.scale;
  kernel.gridDimX = 2, kernel.blockDimX = 256;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = changed;
  CHECK(cuGraphExecKernelNodeSetParams(waiting.exec, waiting.third, &kernel));
  CHECK(cuGraphLaunch(waiting.exec, p.stream));
  CHECK(cuGraphExecDestroy(waiting.exec));
  if (fork() == 0) _exit(0);
  CHECK(cuMemAlloc(&own, 64));
  CHECK(cuMemFree(own));
  CHECK(cuStreamSynchronize(p.stream));
}

// On default streams, whose end another thread can't ask for.
void on_stream(Program& p, CUstream stream) {
  p.stream = stream;
  memory_nodes(p, "");
}

// Its handle, with no value of its own to begin with if `begins_with` is null.
struct Conditional {
  CUgraphNodeParams parameters = {};
  CUgraph graph;

  Conditional(CUgraph graph, CUgraphConditionalNodeType type, unsigned size, const unsigned* begins_with)
      : graph(graph) {
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    parameters.conditional.type = type;
    parameters.conditional.size = size;
    parameters.conditional.ctx = context;
    CHECK(cuGraphConditionalHandleCreate(&handle(), graph, context, begins_with ? *begins_with : 0,
                                         begins_with ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0));
  }
  CUgraphConditionalHandle& handle() { return parameters.conditional.handle; }
  CUgraph body(unsigned i) { return parameters.conditional.phGraph_out[i]; }
  CUgraphNode add(const std::vector<CUgraphNode>& after) {
    CUgraphNode node;
    CHECK(cuGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &parameters));
    return node;
  }
};

// Its body number i counts i + 1 runs.
void conditional(Program& p, CUgraphConditionalNodeType type, unsigned size, unsigned value) {
  CUgraph graph = new_graph();
  Conditional node(graph, type, size, &value);
  CUgraphNode first = add_kernel(graph, {}, p.scale, {&p.x, &p.factor, &p.count}), behind = node.add({first});
  for (unsigned i = 0; i < size; ++i) {
    std::vector<CUgraphNode> after;
    for (unsigned k = 0; k <= i; ++k)
      after = {add_kernel(node.body(i), after, p.increment, {&p.count_of_runs}, 1, 1)};
  }
  add_kernel(graph, {behind}, p.add, {&p.x, &p.y, &p.out, &p.count});
  p.run(graph, 2);
}

// A kernel decides which of three bodies of a `switch` runs: the last, in which an `if` counts a run.
void decided(Program& p) {
  CUgraph graph = new_graph();
  CUfunction decide = load(PTX_HEAD PTX_DECIDE, DECIDE);
  CUdeviceptr two = upload(std::vector<int>{2});
  const unsigned always = 1;
  Conditional node(graph, CU_GRAPH_COND_TYPE_SWITCH, 3, nullptr);
  CUgraphNode first = add_kernel(graph, {}, decide, {&node.handle(), &two}, 1, 1), behind = node.add({first});
  Conditional inner(node.body(2), CU_GRAPH_COND_TYPE_IF, 1, &always);
  inner.add({});
  add_kernel(inner.body(0), {}, p.increment, {&p.count_of_runs}, 1, 1);
  add_kernel(graph, {behind}, p.add, {&p.x, &p.y, &p.out, &p.count});
  p.run(graph, 2);
}

// What two kernels of no order read is scaled before them, and added after them.
void branches(Program& p) {
  CUgraph graph = new_graph();
  CUgraphNode first = add_kernel(graph, {}, p.scale, {&p.x, &p.factor, &p.count});
  CUgraphNode left = add_kernel(graph, {first}, p.scale, {&p.y, &p.factor, &p.count});
  CUgraphNode right = add_kernel(graph, {first}, p.increment, {&p.count_of_runs}, 1, 1);
  add_kernel(graph, {left, right}, p.add, {&p.x, &p.y, &p.out, &p.count});
  p.run(graph, 1);
}

// Three turns of a body, the last kernel of which decides on the next one; then the same as ever.
void loop(Program& p) {
  CUgraph graph = new_graph();
  CUfunction turn = load(PTX_HEAD PTX_TURN, TURN);
  CUdeviceptr left = upload(std::vector<int>{3});
  const unsigned always = 1;
  Conditional node(graph, CU_GRAPH_COND_TYPE_WHILE, 1, &always);
  CUgraphNode first = add_kernel(graph, {}, p.scale, {&p.x, &p.factor, &p.count}), behind = node.add({first});
  CUgraphNode inside = add_kernel(node.body(0), {}, p.increment, {&p.count_of_runs}, 1, 1);
  add_kernel(node.body(0), {inside}, turn, {&node.handle(), &left}, 1, 1);
  add_kernel(graph, {behind}, p.add, {&p.x, &p.y, &p.out, &p.count});
  p.run(graph, 2);
}

// The program looks at its graph as torch does: the capture may not show in it.
void inspected(Program& p) {
  CUgraph graph = p.captured();
  size_t nodes = 0, edges = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  std::printf("nodes %zu edges %zu\n", nodes, edges);
  p.run(graph, 3);
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "captured";
  start();
  Program p;
  if (what == "beside") p.enqueue(false);  // the same launches without a graph, and then in one
  if (what == "captured" || what == "beside")
    p.run(p.captured(), 2);
  else if (what == "host_node")
    p.run(p.captured(true), 2);
  else if (what == "explicit")
    explicit_graph(p);
  else if (what == "child")
    child_graph(p);
  else if (what == "inspected")
    inspected(p);
  else if (what == "nested")
    nested(p);
  else if (what == "updated" || what == "updated_as_a_whole")
    updated(p, what == "updated_as_a_whole");
  else if (what == "device_launch")
    p.run(p.captured(), 2, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
  else if (what == "memory" || what == "memory_beside" || what == "memory_host")
    memory_nodes(p, what == "memory" ? "" : what.substr(7));
  else if (what == "memory_waits")
    waits_for_thread(p);
  else if (what == "flag" || what == "flag_launch" || what == "flag_end")
    waits_for_launcher(p, what == "flag" ? "" : what.substr(5));
  else if (what == "changed_after_launch")
    changed_after_launch(p);
  else if (what == "memory_legacy")
    on_stream(p, CU_STREAM_LEGACY);
  else if (what == "memory_per_thread")
    on_stream(p, CU_STREAM_PER_THREAD);
  else if (what == "memory_between")
    memory_between(p);
  else if (what == "if")
    conditional(p, CU_GRAPH_COND_TYPE_IF, 1, 1);
  else if (what == "else")
    conditional(p, CU_GRAPH_COND_TYPE_IF, 2, 0);
  else if (what == "switch")
    conditional(p, CU_GRAPH_COND_TYPE_SWITCH, 3, 1);
  else if (what == "decided")
    decided(p);
  else if (what == "while")
    loop(p);
  else if (what == "branches")
    branches(p);
  else
    return 64;
  p.print();
  return 0;
}
