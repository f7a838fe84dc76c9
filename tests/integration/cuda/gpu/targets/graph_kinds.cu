// Graphs with nodes of every kind, launched twice each, by the name of the argument.
#include <execinfo.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "check.h"

constexpr int n = 4096;

__global__ void kc_scale(float* x, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor + 1;
}
__global__ void kc_add(const float* x, const float* y, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i] - y[n - 1 - i];
}
__global__ void kc_count(float* x) {
  x[blockIdx.x] += 1;
}

__global__ void kc_decide(cudaGraphConditionalHandle handle, const float* x) {
  cudaGraphSetConditional(handle, x[0] > 0 ? 2 : 0);
}
// Another turn as long as any is left.
__global__ void kc_turn(cudaGraphConditionalHandle handle, int* left) {
  cudaGraphSetConditional(handle, --*left > 0);
}

// Until the host sets the flag; says in the next word that it runs.
__global__ void wait_for_host(volatile int* flag, float* x) {
  flag[1] = 1;
  __threadfence_system();
  while (flag[0] == 0) {
  }
  x[0] += 1;
}
// For longer than a graph that is stopped makes other threads wait.
__global__ void wait_for_long(float* x) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < 7000000000ull);
  x[0] += 1;
}
__global__ void launched_late(float* x) {
  x[0] += 1;
}

static int host_calls = 0;
static void counted(void* by) {
  host_calls += *static_cast<int*>(by);
}
static int one = 1, ten = 10;

static cudaGraph_t new_graph() {
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  return graph;
}

static cudaKernelNodeParams node_of(void* kernel, std::vector<void*>& arguments, int grid = n / 256,
                                    int block = 256) {
  cudaKernelNodeParams p = {};
  p.func = kernel, p.gridDim = dim3(grid), p.blockDim = dim3(block), p.kernelParams = arguments.data();
  return p;
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, void* kernel,
                                  std::vector<void*> arguments, int grid = n / 256, int block = 256) {
  cudaGraphNode_t node;
  cudaKernelNodeParams p = node_of(kernel, arguments, grid, block);
  MUST(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &p));
  return node;
}

static cudaMemsetParams filled(void* what, unsigned value) {
  cudaMemsetParams p = {};
  p.dst = what, p.value = value, p.elementSize = 4, p.width = n, p.height = 1;
  return p;
}

static void* const scale = (void*)kc_scale;
static void* const sum = (void*)kc_add;
static void* const count = (void*)kc_count;

struct Program {
  float *x = on_device(numbers<float>(n, 1)), *y = on_device(numbers<float>(n, 2)),
        *out = on_device(numbers<float>(n, 3));
  float factor = 0.5f;
  cudaStream_t stream;
  cudaEvent_t event, other;

  Program() {
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
  }
  void launch(cudaGraphExec_t exec, int times = 2) {
    for (int i = 0; i < times; ++i) MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    report("x", x, n);
    report("y", y, n);
    report("out", out, n);
    std::printf("host calls %d\n", host_calls);
  }
  cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
  }
};

// Three graphs deep; every order of two of their nodes gives other numbers.
struct Nested {
  cudaGraph_t inner = new_graph(), middle = new_graph(), outer = new_graph();
  cudaGraphNode_t fill, copy, host, record, wait, deep, below, first, last;

  Nested(Program& p, float& factor, cudaEvent_t event, int* by, float* from) {
    cudaGraphNode_t add = add_kernel(inner, {}, sum, {&p.x, &p.y, &p.out});
    add_kernel(inner, {add}, scale, {&p.x, &factor});
    cudaHostNodeParams counting = {counted, by};
    MUST(cudaGraphAddHostNode(&host, middle, nullptr, 0, &counting));
    MUST(cudaGraphAddChildGraphNode(&deep, middle, &host, 1, inner));
    MUST(cudaGraphAddEventRecordNode(&record, middle, &deep, 1, event));
    add_kernel(middle, {record}, count, {&p.out}, 8, 1);
    cudaMemsetParams ones = filled(p.x, 0x3f800000);
    MUST(cudaGraphAddMemsetNode(&fill, outer, nullptr, 0, &ones));
    first = add_kernel(outer, {fill}, scale, {&p.x, &factor});
    MUST(cudaGraphAddChildGraphNode(&below, outer, &first, 1, middle));
    MUST(cudaGraphAddEventWaitNode(&wait, outer, &below, 1, event));
    MUST(cudaGraphAddMemcpyNode1D(&copy, outer, &wait, 1, p.y, from, n * 4, cudaMemcpyDeviceToDevice));
    last = add_kernel(outer, {copy}, sum, {&p.x, &p.y, &p.out});
  }
};

static void nested(Program& p) {
  Nested graphs(p, p.factor, p.event, &one, p.out);
  cudaGraphExec_t exec = p.instantiate(graphs.outer);
  // What was instantiated is as it was: the graphs may change and go.
  MUST(cudaGraphDestroyNode(graphs.last));
  for (cudaGraph_t graph : {graphs.inner, graphs.middle, graphs.outer}) MUST(cudaGraphDestroy(graph));
  p.launch(exec);
  MUST(cudaGraphExecDestroy(exec));
}

// The exec's parameters are those that it was given last.
static void updated(Program& p, bool as_a_whole) {
  float factor = 3;
  Nested graphs(p, p.factor, p.event, &one, p.out), fresh(p, factor, p.other, &ten, p.x);
  cudaGraphExec_t exec = p.instantiate(graphs.outer);
  p.launch(exec, 1);
  if (as_a_whole) {
    cudaGraphExecUpdateResultInfo info;
    MUST(cudaGraphExecUpdate(exec, fresh.outer, &info));
    MUST(cudaGraphDestroy(fresh.outer));
  } else {
    cudaMemsetParams twos = filled(p.x, 0x40000000);
    MUST(cudaGraphExecMemsetNodeSetParams(exec, graphs.fill, &twos));
    MUST(cudaGraphExecMemcpyNodeSetParams1D(exec, graphs.copy, p.y, p.x, n * 4, cudaMemcpyDeviceToDevice));
    std::vector<void*> arguments = {&p.y, &p.x, &p.out};
    cudaKernelNodeParams kernel = node_of(sum, arguments);
    MUST(cudaGraphExecKernelNodeSetParams(exec, graphs.last, &kernel));
    MUST(cudaGraphExecEventWaitNodeSetEvent(exec, graphs.wait, p.other));
    MUST(cudaGraphNodeSetEnabled(exec, graphs.first, 0));
    MUST(cudaGraphExecChildGraphNodeSetParams(exec, graphs.below, fresh.middle));
    MUST(cudaGraphDestroy(fresh.middle));
  }
  p.launch(exec, 1);
  MUST(cudaGraphExecDestroy(exec));
}

// As XLA makes them: what a library captured is a child of a graph that is built by hand.
static void captured_child(Program& p) {
  cudaGraph_t child, graph = new_graph();
  MUST(cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeThreadLocal));
  kc_scale<<<n / 256, 256, 0, p.stream>>>(p.x, p.factor);
  kc_add<<<n / 256, 256, 0, p.stream>>>(p.x, p.y, p.out);
  MUST(cudaStreamEndCapture(p.stream, &child));
  cudaGraphNode_t first = add_kernel(graph, {}, scale, {&p.y, &p.factor}), node;
  MUST(cudaGraphAddChildGraphNode(&node, graph, &first, 1, child));
  add_kernel(graph, {node}, count, {&p.out}, 8, 1);
  p.launch(p.instantiate(graph));
}

static void* add_allocation(cudaGraph_t graph, cudaGraphNode_t* node) {
  cudaMemAllocNodeParams own = {};
  own.poolProps.allocType = cudaMemAllocationTypePinned;
  own.poolProps.location = {cudaMemLocationTypeDevice, 0};
  own.bytesize = n * 4;
  MUST(cudaGraphAddMemAllocNode(node, graph, nullptr, 0, &own));
  return own.dptr;
}

// What graphs take of the device.
static void report_footprint() {
  for (cudaGraphMemAttributeType which :
       {cudaGraphMemAttrUsedMemCurrent, cudaGraphMemAttrUsedMemHigh, cudaGraphMemAttrReservedMemCurrent,
        cudaGraphMemAttrReservedMemHigh}) {
    unsigned long long bytes = 0;
    MUST(cudaDeviceGetGraphMemAttribute(0, which, &bytes));
    std::printf("graph memory %d: %llu\n", static_cast<int>(which), bytes);
  }
}

static void memory(Program& p) {
  cudaGraph_t graph = new_graph();
  cudaGraphNode_t node, release;
  void* own = add_allocation(graph, &node);
  node = add_kernel(graph, {node}, sum, {&p.x, &p.y, &own});
  node = add_kernel(graph, {node}, scale, {&own, &p.factor});
  node = add_kernel(graph, {node}, sum, {&own, &p.y, &p.out});
  MUST(cudaGraphAddMemFreeNode(&release, graph, &node, 1, own));
  p.launch(p.instantiate(graph));
  report_footprint();
}

// One graph's memory is read and freed by another.
static void memory_between(Program& p) {
  cudaGraph_t first = new_graph(), second = new_graph();
  cudaGraphNode_t node, release;
  void* own = add_allocation(first, &node);
  add_kernel(first, {node}, sum, {&p.x, &p.y, &own});
  node = add_kernel(second, {}, sum, {&own, &p.y, &p.out});
  MUST(cudaGraphAddMemFreeNode(&release, second, &node, 1, own));
  cudaGraphExec_t execs[] = {p.instantiate(first), p.instantiate(second)};
  for (cudaGraphExec_t exec : execs) p.launch(exec, 1);
  report_footprint();
}

// With memory of its own: a sum, one of those that wait, a scaling and a sum.
struct Waiting {
  cudaGraph_t graph = new_graph();
  cudaGraphNode_t third, release;
  cudaGraphExec_t exec;
  int* flag;
  void* own;

  explicit Waiting(Program& p, bool for_host) {
    MUST(cudaMallocHost(&flag, 64));
    flag[0] = flag[1] = 0;
    cudaGraphNode_t node;
    own = add_allocation(graph, &node);
    node = add_kernel(graph, {node}, sum, {&p.x, &p.y, &own});
    node = for_host ? add_kernel(graph, {node}, (void*)wait_for_host, {&flag, &own}, 1, 1)
                    : add_kernel(graph, {node}, (void*)wait_for_long, {&own}, 1, 1);
    node = third = add_kernel(graph, {node}, scale, {&own, &p.factor});
    node = add_kernel(graph, {node}, sum, {&own, &p.y, &p.out});
    MUST(cudaGraphAddMemFreeNode(&release, graph, &node, 1, own));
    exec = p.instantiate(graph);
  }
  bool has_come() const { return __atomic_load_n(flag + 1, __ATOMIC_ACQUIRE) != 0; }
  void set_flag() { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }
};

static void finish(Program& p) {
  MUST(cudaStreamSynchronize(p.stream));
  p.launch(nullptr, 0);
}

// The thread that launches sets the flag afterwards, at once or after a launch that a stopped graph makes
// wait.
static void flag(Program& p, bool launches) {
  float* other = on_device(numbers<float>(8, 4));
  cudaStream_t beside;
  MUST(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  kc_count<<<8, 1, 0, beside>>>(other);
  MUST(cudaStreamSynchronize(beside));
  Waiting waiting(p, true);
  MUST(cudaGraphLaunch(waiting.exec, p.stream));
  if (launches) kc_count<<<8, 1, 0, beside>>>(other);
  while (!waiting.has_come()) {
  }
  waiting.set_flag();
  finish(p);
  report("other", other, 8);
}

// Behind a kernel that takes long: one whose code must be loaded, memory that is given back.
static void long_one(Program& p) {
  float *other = on_device(numbers<float>(8, 4)), *spare = on_device(numbers<float>(8, 5));
  cudaStream_t beside;
  MUST(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  Waiting waiting(p, false);
  MUST(cudaGraphLaunch(waiting.exec, p.stream));
  launched_late<<<1, 1, 0, beside>>>(other);
  MUST(cudaFree(spare));
  finish(p);
  report("other", other, 8);
}

// What a program may do as soon as its launch has returned, before the graph has ended.
static void changed_after_launch(Program& p) {
  Waiting waiting(p, true);
  MUST(cudaGraphLaunch(waiting.exec, p.stream));
  float factor = 7;
  std::vector<void*> arguments = {&waiting.own, &factor};
  cudaKernelNodeParams kernel = node_of(scale, arguments);
  MUST(cudaGraphExecKernelNodeSetParams(waiting.exec, waiting.third, &kernel));
  waiting.set_flag();
  MUST(cudaGraphLaunch(waiting.exec, p.stream));
  MUST(cudaGraphExecDestroy(waiting.exec));
  finish(p);
}

// The program ends and has waited for nothing.
static void unwaited(Program& p) {
  Waiting waiting(p, true);
  waiting.set_flag();
  MUST(cudaGraphLaunch(waiting.exec, p.stream));
  std::printf("launched\n");
}

struct Conditional {
  cudaGraphNodeParams parameters = {};
  cudaGraph_t graph;

  // Without `begins_with` its handle has the value that a kernel gives to it.
  Conditional(cudaGraph_t graph, cudaGraphConditionalNodeType type, unsigned size,
              const unsigned* begins_with)
      : graph(graph) {
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.type = type;
    parameters.conditional.size = size;
    MUST(cudaGraphConditionalHandleCreate(&handle(), graph, begins_with ? *begins_with : 0,
                                          begins_with ? cudaGraphCondAssignDefault : 0));
  }
  cudaGraphConditionalHandle& handle() { return parameters.conditional.handle; }
  cudaGraph_t body(unsigned i) { return parameters.conditional.phGraph_out[i]; }
  cudaGraphNode_t add(const std::vector<cudaGraphNode_t>& after) {
    cudaGraphNode_t node;
    MUST(cudaGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &parameters));
    return node;
  }
};

// Body number i counts i + 1 times.
static void conditional(Program& p, cudaGraphConditionalNodeType type, unsigned size, unsigned value) {
  cudaGraph_t graph = new_graph();
  Conditional node(graph, type, size, &value);
  cudaGraphNode_t first = add_kernel(graph, {}, scale, {&p.x, &p.factor}), behind = node.add({first});
  for (unsigned i = 0; i < size; ++i) {
    std::vector<cudaGraphNode_t> after;
    for (unsigned k = 0; k <= i; ++k) after = {add_kernel(node.body(i), after, count, {&p.x}, 8, 1)};
  }
  add_kernel(graph, {behind}, sum, {&p.x, &p.y, &p.out});
  p.launch(p.instantiate(graph));
}

// A kernel decides for the last body of a `switch`, and in it is an `if`.
static void decided(Program& p) {
  cudaGraph_t graph = new_graph();
  const unsigned always = 1;
  Conditional node(graph, cudaGraphCondTypeSwitch, 3, nullptr);
  cudaGraphNode_t first = add_kernel(graph, {}, (void*)kc_decide, {&node.handle(), &p.x}, 1, 1);
  cudaGraphNode_t behind = node.add({first});
  for (unsigned i = 0; i < 2; ++i) add_kernel(node.body(i), {}, scale, {&p.x, &p.factor});
  Conditional inner(node.body(2), cudaGraphCondTypeIf, 1, &always);
  inner.add({});
  add_kernel(inner.body(0), {}, count, {&p.x}, 8, 1);
  add_kernel(graph, {behind}, sum, {&p.x, &p.y, &p.out});
  p.launch(p.instantiate(graph));
}

// Three turns of a body in the first launch, one in the second.
static void loop(Program& p) {
  cudaGraph_t graph = new_graph();
  const unsigned always = 1;
  int* left = on_device(std::vector<int>{3});
  Conditional node(graph, cudaGraphCondTypeWhile, 1, &always);
  cudaGraphNode_t first = add_kernel(graph, {}, scale, {&p.x, &p.factor}), behind = node.add({first});
  cudaGraphNode_t inside = add_kernel(node.body(0), {}, count, {&p.x}, 8, 1);
  add_kernel(node.body(0), {inside}, (void*)kc_turn, {&node.handle(), &left}, 1, 1);
  add_kernel(graph, {behind}, sum, {&p.x, &p.y, &p.out});
  p.launch(p.instantiate(graph));
}

// Where the main thread of a program is that does not end.
static void say_where(int) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::_Exit(9);
}

int main(int, char** argv) {
  void* frame;
  backtrace(&frame, 1);  // loads what it needs
  std::signal(SIGALRM, say_where);
  alarm(60);
  Program p;
  const char* what = argv[1];
  if (!std::strcmp(what, "nested"))
    nested(p);
  else if (!std::strcmp(what, "updated"))
    updated(p, false);
  else if (!std::strcmp(what, "updated_as_a_whole"))
    updated(p, true);
  else if (!std::strcmp(what, "captured_child"))
    captured_child(p);
  else if (!std::strcmp(what, "memory"))
    memory(p);
  else if (!std::strcmp(what, "memory_between"))
    memory_between(p);
  else if (!std::strcmp(what, "flag") || !std::strcmp(what, "flag_launch"))
    flag(p, !std::strcmp(what, "flag_launch"));
  else if (!std::strcmp(what, "long"))
    long_one(p);
  else if (!std::strcmp(what, "changed_after_launch"))
    changed_after_launch(p);
  else if (!std::strcmp(what, "unwaited"))
    unwaited(p);
  else if (!std::strcmp(what, "if"))
    conditional(p, cudaGraphCondTypeIf, 1, 1);
  else if (!std::strcmp(what, "else"))
    conditional(p, cudaGraphCondTypeIf, 2, 0);
  else if (!std::strcmp(what, "switch"))
    conditional(p, cudaGraphCondTypeSwitch, 3, 1);
  else if (!std::strcmp(what, "decided"))
    decided(p);
  else if (!std::strcmp(what, "while"))
    loop(p);
  else
    return 64;
}
