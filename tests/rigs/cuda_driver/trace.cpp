// What a profiler learns of launches and kernels: see rig_trace in rig.h.
#include "state.h"

namespace rig {
namespace {

std::atomic<void (*)(uint32_t)> on_launch{nullptr};
std::atomic<void (*)(const rig_kernel_run*)> on_run{nullptr};
std::atomic<void (*)(const rig_copy_run*)> on_copy{nullptr};
std::atomic<uint32_t> launches{0};
thread_local uint32_t graph_here = 0, graph_stream = 0;

}  // namespace

uint64_t trace_clock_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

uint32_t trace_launch() {
  auto tell = on_launch.load();
  if (!tell) return 0;
  uint32_t number = ++launches;
  tell(number);
  return number;
}

TracedGraph::TracedGraph(uint32_t correlation, uint32_t stream) {
  graph_here = correlation;
  graph_stream = stream;
}
TracedGraph::~TracedGraph() {
  graph_here = 0;
}

void trace_kernel(const KernelWork& kernel, uint64_t start_ns, uint64_t end_ns) {
  auto tell = on_run.load();
  if (!tell) return;
  rig_kernel_run run = {};
  run.name = kernel.function->image->name.c_str();
  for (int i = 0; i < 3; ++i) {
    run.grid[i] = kernel.grid[i];
    run.block[i] = kernel.block[i];
  }
  run.is_of_graph = graph_here != 0;
  run.correlation = graph_here ? graph_here : kernel.correlation;
  run.stream = graph_here ? graph_stream : kernel.stream;
  run.start_ns = start_ns;
  run.end_ns = end_ns;
  tell(&run);
}

void trace_copy(const Work& work, uint32_t stream, uint64_t start_ns, uint64_t end_ns) {
  auto tell = on_copy.load();
  bool is_fill = work.type == CU_GRAPH_NODE_TYPE_MEMSET;
  if (!tell || (!is_fill && work.type != CU_GRAPH_NODE_TYPE_MEMCPY)) return;
  constexpr uint8_t directions[2][2] = {{8, 2}, {1, 9}};  // [from the host][to the host]
  const CUDA_MEMCPY3D& copy = work.copy;
  rig_copy_run run = {};
  run.is_fill = is_fill;
  run.direction =
      directions[copy.srcMemoryType == CU_MEMORYTYPE_HOST][copy.dstMemoryType == CU_MEMORYTYPE_HOST];
  run.stream = stream;
  run.bytes = is_fill ? work.memset.elementSize * work.memset.width * work.memset.height
                      : copy.WidthInBytes * copy.Height * copy.Depth;
  run.start_ns = start_ns;
  run.end_ns = end_ns;
  tell(&run);
}

}  // namespace rig

#define RIG_VISIBLE extern "C" __attribute__((visibility("default")))

RIG_VISIBLE void rig_trace(void (*launched)(uint32_t), void (*ran)(const rig_kernel_run*),
                           void (*copied)(const rig_copy_run*)) {
  rig::on_launch.store(launched);
  rig::on_run.store(ran);
  rig::on_copy.store(copied);
}

RIG_VISIBLE uint64_t rig_clock_ns() {
  return rig::trace_clock_ns();
}
