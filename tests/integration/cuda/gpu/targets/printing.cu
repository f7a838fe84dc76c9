// Kernels that print, between what the host prints: each line has its place in the output.
#include <unistd.h>

#include <cstring>

#include "check.h"

__global__ void kc_say(const float* x, int n, const char* name) {
  for (int i = 0; i < n; ++i) printf("%s[%d] is %.3f %c%%\n", name, i, x[i], 'a' + i);
  printf("and no end, ");
}
// More than the ring is sure to keep: 4,096 records of 1 MiB, if each printf is one.
__global__ void kc_much(int n) {
  for (int i = 0; i < n; ++i) printf("line %d of %d, of which each is longer than a record of it\n", i, n);
}
__global__ void kc_nothing() {}

int main(int argc, char** argv) {
  const bool waits = argc < 2 || std::strcmp(argv[1], "exit") != 0;
  MUST(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20));
  float* x = on_device(numbers<float>(8, 1));
  char* name = on_device(std::vector<char>{'x', 0});
  kc_say<<<1, 1>>>(x, 1, name);  // not captured: what it prints is its own
  std::printf("first launched\n");
  kc_say<<<1, 1>>>(x, 3, name);
  std::printf("launched\n");
  kc_say<<<1, 1>>>(x, 2, name);
  std::printf("a third\n");
  if (!waits) {
    std::fflush(stdout);
    _exit(0);
  }
  MUST(cudaDeviceSynchronize());
  std::printf("waited\n");
  kc_much<<<1, 1>>>(1000);
  std::printf("much\n");
  kc_nothing<<<1, 1>>>();
  MUST(cudaDeviceSynchronize());
  std::printf("ended\n");
}
