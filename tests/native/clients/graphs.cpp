// Kernels in graphs: captured from a stream, built by hand, with other nodes between them.
#include <string>

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

  void run(CUgraph graph, int times) {
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
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
  else
    return 64;
  p.print();
  return 0;
}
