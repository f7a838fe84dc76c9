// Three kernels captured from a stream into a graph, with a copy between them; launched three times.
#include "check.h"

__global__ void kc_first(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
__global__ void kc_second(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = y[i] * 0.5f + x[i];
}
__global__ void kc_third(float* x, const float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] -= y[n - 1 - i];
}

int main() {
  const int n = 1 << 14;
  float *x = on_device(numbers<float>(n, 1)), *y = on_device(numbers<float>(n, 2)),
        *z = on_device(numbers<float>(n, 3));
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  kc_first<<<n / 256, 256, 0, stream>>>(x, n);
  kc_second<<<n / 256, 256, 0, stream>>>(x, y, n);
  MUST(cudaMemcpyAsync(z, y, n * sizeof(float), cudaMemcpyDeviceToDevice, stream));
  kc_third<<<n / 256, 256, 0, stream>>>(x, z, n);
  cudaGraph_t graph;
  MUST(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int k = 0; k < 3; ++k) {
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    report("x", x, n);
    report("y", y, n);
  }
}
