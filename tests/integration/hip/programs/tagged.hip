// Addresses with a number in their upper byte, by which memory is reached that nothing else leads to.
#include "common.h"

extern "C" __global__ void tagged(const unsigned long long* p, float* x) {
  const int i = threadIdx.x;
  const float* at = (const float*)(p[i] & 0x00ffffffffffffffull);
  x[i] = *at * (float)(p[i] >> 56);
}
int main() {
  std::vector<unsigned long long> tags(64);
  float* data = to_device(ramp(64, 0.5f));
  for (int i = 0; i < 64; i++)
    tags[i] = (unsigned long long)(data + i) | (unsigned long long)(i % 5 + 1) << 56;
  float* x = zeros<float>(64);
  tagged<<<1, 64>>>(to_device(tags), x);
  report("tagged", x, 64 * sizeof(float));
  return 0;
}
