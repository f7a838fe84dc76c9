// What every program here does: check each call, and print what a launch left, for a test to compare.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void check(hipError_t status, const char* call, int line) {
  if (status != hipSuccess) {
    std::fprintf(stderr, "line %d: %s: %s\n", line, call, hipGetErrorString(status));
    std::exit(1);
  }
}
#define CHECK(call) check((call), #call, __LINE__)

// FNV-1a, which the tests compute too.
inline uint64_t hash(const void* data, size_t bytes) {
  uint64_t value = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < bytes; ++i)
    value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ull;
  return value;
}

// One line: the launch, where its output lies, how many bytes, their hash. `host` is what was copied back.
inline void print(const char* launch, const void* device, const void* host, size_t bytes) {
  std::printf("%s %p %zu %016llx\n", launch, device, bytes,
              static_cast<unsigned long long>(hash(host, bytes)));
  std::fflush(stdout);
}

inline void report(const char* launch, const void* device, size_t bytes) {
  CHECK(hipDeviceSynchronize());
  std::vector<unsigned char> host(bytes);
  CHECK(hipMemcpy(host.data(), device, bytes, hipMemcpyDeviceToHost));
  print(launch, device, host.data(), bytes);
}

template <class T>
T* to_device(const std::vector<T>& host) {
  T* device = nullptr;
  CHECK(hipMalloc(reinterpret_cast<void**>(&device), host.size() * sizeof(T)));
  CHECK(hipMemcpy(device, host.data(), host.size() * sizeof(T), hipMemcpyHostToDevice));
  return device;
}

template <class T>
T* zeros(size_t count) {
  return to_device(std::vector<T>(count));
}

inline std::vector<float> ramp(size_t count, float step) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<float>(static_cast<int>(i % 97) - 48) * step;
  return made;
}
