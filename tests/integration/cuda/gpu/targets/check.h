// What every target has: a call that must succeed, and the checksum that it prints of its own results.
#ifndef KERNCAP_TARGETS_CHECK_H
#define KERNCAP_TARGETS_CHECK_H

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void must(cudaError_t status, const char* what, int line) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, what, cudaGetErrorString(status));
  std::exit(3);
}
#define MUST(call) must((call), #call, __LINE__)

inline uint64_t checksum(const void* bytes, size_t size) {
  uint64_t sum = 0xcbf29ce484222325ull;  // FNV-1a
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < size; ++i) sum = (sum ^ at[i]) * 0x100000001b3ull;
  return sum;
}

// Prints `name` with the checksum of `count` values of device memory.
template <typename T>
void report(const char* name, const T* device, size_t count) {
  std::vector<T> host(count);
  MUST(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  std::printf("%s %016llx\n", name,
              static_cast<unsigned long long>(checksum(host.data(), count * sizeof(T))));
}

template <typename T>
T* on_device(const std::vector<T>& host) {
  T* device = nullptr;
  MUST(cudaMalloc(&device, host.size() * sizeof(T)));
  MUST(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

// Values that no two kernels share by accident; small integers, so that float sums are exact.
template <typename T>
std::vector<T> numbers(size_t count, uint32_t seed) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = static_cast<T>(seed >> 22);
  }
  return values;
}

#endif  // KERNCAP_TARGETS_CHECK_H
