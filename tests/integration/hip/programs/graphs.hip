// Two graphs with a branch on a second stream, launched in turns on changed input; and a launch outside.
#include "common.h"

__global__ void scaled(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}

__global__ void shifted(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[(i + 1) % n];
}

__global__ void added(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}

__global__ void grown(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}

struct Graph {
  static constexpr int n = 500;
  static constexpr int groups = (n + 63) / 64;
  float *x = to_device(ramp(n, 1.0f)), *y = zeros<float>(n), *side = zeros<float>(n), *out = zeros<float>(n);
  hipGraphExec_t executable = nullptr;

  Graph(float factor, hipStream_t stream, hipStream_t other) {
    hipEvent_t forked, joined;
    CHECK(hipEventCreate(&forked));
    CHECK(hipEventCreate(&joined));
    hipGraph_t graph;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    scaled<<<groups, 64, 0, stream>>>(x, y, factor, n);
    CHECK(hipEventRecord(forked, stream));
    CHECK(hipStreamWaitEvent(other, forked, 0));
    shifted<<<groups, 64, 0, other>>>(y, side, n);
    CHECK(hipEventRecord(joined, other));
    CHECK(hipStreamWaitEvent(stream, joined, 0));
    added<<<groups, 64, 0, stream>>>(y, side, out, n);
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
  }
};

int main() {
  hipStream_t stream, other;
  CHECK(hipStreamCreate(&stream));
  CHECK(hipStreamCreate(&other));
  Graph first(2.0f, stream, other), second(3.0f, stream, other);
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(hipGraphLaunch(first.executable, stream));
    grown<<<Graph::groups, 64, 0, stream>>>(second.x, Graph::n);
    CHECK(hipGraphLaunch(second.executable, stream));
    CHECK(hipStreamSynchronize(stream));
    report("first", first.out, Graph::n * sizeof(float));
    report("second", second.out, Graph::n * sizeof(float));
  }
  CHECK(hipGraphExecDestroy(first.executable));
  Graph third(0.5f, stream, other);  // its handle may be the first one's
  CHECK(hipGraphLaunch(third.executable, stream));
  report("third", third.out, Graph::n * sizeof(float));
  return 0;
}
