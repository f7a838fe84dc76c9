// A kernel waits for a flag that a kernel of another thread sets: whoever holds that launch back for ever
// hangs this program. Gives up by itself after 60 s, and then says so.
#include <thread>

#include "check.h"

// `alive` is host memory: the other thread knows by it that this kernel runs.
__global__ void kc_poll(volatile int* flag, int* out, volatile int* alive) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  *alive = 1;
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*flag == 0 && now - start < 60000000000ull);
  *out = *flag;
}

__global__ void kc_set(volatile int* flag) {
  *flag = 42;
}

__global__ void kc_after(const int* out, int* copy) {
  *copy = *out + 1;
}

int main() {
  int *flag, *out, *copy;
  MUST(cudaMalloc(&flag, sizeof(int)));
  MUST(cudaMalloc(&out, sizeof(int)));
  MUST(cudaMalloc(&copy, sizeof(int)));
  MUST(cudaMemset(flag, 0, sizeof(int)));
  MUST(cudaDeviceSynchronize());
  cudaStream_t waiting, setting;
  MUST(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&setting, cudaStreamNonBlocking));
  // Loaded before anything waits: a kernel's first launch may load it, which waits for the device.
  cudaFuncAttributes loaded;
  MUST(cudaFuncGetAttributes(&loaded, kc_poll));
  MUST(cudaFuncGetAttributes(&loaded, kc_set));
  MUST(cudaFuncGetAttributes(&loaded, kc_after));
  volatile int* alive;
  MUST(cudaMallocHost(const_cast<int**>(&alive), sizeof(int)));
  *alive = 0;
  std::thread setter([&] {
    while (*alive == 0) std::this_thread::yield();
    kc_set<<<1, 1, 0, setting>>>(flag);
    MUST(cudaStreamSynchronize(setting));
  });
  kc_poll<<<1, 1, 0, waiting>>>(flag, out, alive);
  kc_after<<<1, 1, 0, waiting>>>(out, copy);
  MUST(cudaStreamSynchronize(waiting));
  setter.join();
  report("poll", copy, 1);
}
