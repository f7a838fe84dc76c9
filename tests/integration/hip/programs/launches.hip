// Ways to launch: instances of one template, an anonymous namespace, two streams, a graph, a partial
// workgroup.
#include "common.h"

#include <hip/hip_ext.h>

namespace app {
template <class T, int FACTOR>
__global__ void scaled(const T* in, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * static_cast<T>(FACTOR);
}

namespace {
__global__ void unnamed(int* x) {
  x[threadIdx.x] += 11;
}
}  // namespace
}  // namespace app

__global__ void on_first(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int turn = 0; i < n && turn < 50; ++turn) x[i] = x[i] * 0.5f + 1.0f;
}

__global__ void on_second(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int turn = 0; i < n && turn < 50; ++turn) x[i] = x[i] * 0.25f - 1.0f;
}

__global__ void in_graph(int* x) {
  x[threadIdx.x] += static_cast<int>(threadIdx.x);
}

// Every work-item says where it is: a replay must launch as many, in the same workgroups.
__global__ void partial(int* out) {
  int i = blockIdx.x * 64 + threadIdx.x;
  out[i] = static_cast<int>(blockDim.x * 1000 + gridDim.x);
}

int main() {
  const int n = 300;
  float *floats = to_device(ramp(n, 0.5f)), *scaled_floats = zeros<float>(n);
  app::scaled<float, 3><<<(n + 63) / 64, 64>>>(floats, scaled_floats, n);
  report("scaled_float", scaled_floats, n * sizeof(float));

  std::vector<double> plain(n);
  for (int i = 0; i < n; ++i) plain[i] = i * 0.125;
  double *doubles = to_device(plain), *scaled_doubles = zeros<double>(n);
  app::scaled<double, -2><<<(n + 63) / 64, 64>>>(doubles, scaled_doubles, n);
  report("scaled_double", scaled_doubles, n * sizeof(double));

  int* hidden = zeros<int>(64);
  app::unnamed<<<1, 64>>>(hidden);
  report("unnamed", hidden, 64 * sizeof(int));

  hipStream_t first, second;
  CHECK(hipStreamCreate(&first));
  CHECK(hipStreamCreate(&second));
  float *one = to_device(ramp(n, 1.0f)), *two = to_device(ramp(n, 2.0f));
  on_first<<<(n + 63) / 64, 64, 0, first>>>(one, n);
  on_second<<<(n + 63) / 64, 64, 0, second>>>(two, n);
  report("on_first", one, n * sizeof(float));
  report("on_second", two, n * sizeof(float));

  int* node = to_device(std::vector<int>(64, 100));
  hipGraph_t graph;
  hipGraphExec_t executable;
  CHECK(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  in_graph<<<1, 64, 0, first>>>(node);
  CHECK(hipStreamEndCapture(first, &graph));
  CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(executable, first));
  CHECK(hipStreamSynchronize(first));
  report("in_graph", node, 64 * sizeof(int));

  int* places = zeros<int>(128);
  void* arguments[] = {&places};
  hipFunction_t function;
  CHECK(hipGetFuncBySymbol(&function, reinterpret_cast<const void*>(partial)));
  CHECK(hipExtModuleLaunchKernel(function, 100, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr, nullptr,
                                 nullptr, 0));
  report("partial", places, 128 * sizeof(int));
  return 0;
}
