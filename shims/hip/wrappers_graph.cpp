// What launches HIP graphs, so that the packets of one are known.
#include "common/foreign.h"
#include "common/glibc_floor.h"
#include "hip/graphs.h"

namespace kerncap {

int ForeignWrap::hipGraphLaunch(void* graph, void* stream) const noexcept {
  return hip::launch_graph(next.hipGraphLaunch, graph, stream);
}

int ForeignWrap::hipGraphLaunch_spt(void* graph, void* stream) const noexcept {
  return hip::launch_graph(next.hipGraphLaunch_spt, graph, stream);
}

int ForeignWrap::hipGraphExecDestroy(void* graph) const noexcept {
  hip::forget_graph(graph);
  return next.hipGraphExecDestroy(graph);
}

}  // namespace kerncap
