// While a stream captures, nobody may synchronise or copy: a capture of kerncap's that did would end
// the program's own. A second thread launches meanwhile.
#include <atomic>
#include <thread>

#include "client.h"

int main() {
  constexpr int n = 512;
  CUcontext context = start();
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE), increment = load(PTX_HEAD PTX_INCREMENT, INCREMENT);
  CUdeviceptr x = upload(ramp(n)), y = upload(ramp(n, 2)), z = upload(std::vector<int>{0});
  float s = 2;
  int count = n;
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(scale, 2, 256, {&x, &s, &count}, stream);
  std::thread other([&] {
    CHECK(cuCtxSetCurrent(context));
    CUstream own;
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    launch(scale, 2, 256, {&y, &s, &count}, own);
    launch(increment, 1, 1, {&z}, own);
  });
  other.join();
  launch(scale, 2, 256, {&x, &s, &count}, stream);
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuCtxSynchronize());
  std::printf("nodes %zu\n", nodes);
  report("x", download<float>(x, n));
  report("y", download<float>(y, n));
  // After the capture all is as before.
  launch(increment, 1, 1, {&z});
  report("z", download<int>(z, 1));
  return 0;
}
