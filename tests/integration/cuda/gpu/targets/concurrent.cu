// One thread sets a whole buffer to k, again and again; another reads it on a stream of its own. A snapshot
// in the middle of it sees one k everywhere, if nothing else runs meanwhile.
#include <atomic>
#include <thread>

#include "check.h"

constexpr int N = 1 << 22;

__global__ void kc_fill(int* x, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = value;
}

__global__ void kc_read(const int* x, int* low, int* high, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicMin(low, x[i]);
    atomicMax(high, x[i]);
  }
}

int main() {
  int *x = on_device(std::vector<int>(N)), *low = on_device(std::vector<int>(1, 1 << 30)),
      *high = on_device(std::vector<int>(1, -1));
  cudaStream_t filling, reading;
  MUST(cudaStreamCreateWithFlags(&filling, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&reading, cudaStreamNonBlocking));
  std::atomic<bool> stop{false};
  std::atomic<int> filled{0};
  std::thread filler([&] {
    for (int k = 1; !stop.load() || k < 200; ++k) {
      kc_fill<<<64, 256, 0, filling>>>(x, N, k);
      if (k % 16 == 0) MUST(cudaStreamSynchronize(filling));
      filled.store(k);
    }
    MUST(cudaStreamSynchronize(filling));
  });
  while (filled.load() < 50) std::this_thread::yield();
  for (int k = 0; k < 20; ++k) kc_read<<<64, 256, 0, reading>>>(x, low, high, N);
  MUST(cudaStreamSynchronize(reading));
  stop.store(true);
  filler.join();
  int lowest, highest;
  MUST(cudaMemcpy(&lowest, low, sizeof lowest, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(&highest, high, sizeof highest, cudaMemcpyDeviceToHost));
  std::printf("read %d\n", lowest > 0 && highest >= lowest);
}
