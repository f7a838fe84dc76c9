// What the small driver-API programs share. Each prints what it computed on stdout, so that a run
// under capture can be compared with one without.
#ifndef KERNCAP_CLIENT_H
#define KERNCAP_CLIENT_H

#include <cuda.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ptx.h"

#define CHECK(call)                                                                            \
  do {                                                                                         \
    CUresult status_ = (call);                                                                 \
    if (status_ != CUDA_SUCCESS) {                                                             \
      const char* text_ = nullptr;                                                             \
      cuGetErrorName(status_, &text_);                                                         \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_ ? text_ : "?"); \
      std::exit(70);                                                                           \
    }                                                                                          \
  } while (0)

// Device 0's primary context, current on this thread.
inline CUcontext start(int ordinal = 0) {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, ordinal));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  return context;
}

inline CUfunction load(const char* image, const char* name, CUmodule* module = nullptr) {
  CUmodule loaded;
  CUfunction function;
  CHECK(cuModuleLoadData(&loaded, image));
  CHECK(cuModuleGetFunction(&function, loaded, name));
  if (module) *module = loaded;
  return function;
}

inline CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address;
  CHECK(cuMemAlloc(&address, bytes));
  return address;
}

template <class T>
inline CUdeviceptr upload(const std::vector<T>& values) {
  CUdeviceptr address = allocate(values.size() * sizeof(T));
  CHECK(cuMemcpyHtoD(address, values.data(), values.size() * sizeof(T)));
  return address;
}

template <class T>
inline std::vector<T> download(CUdeviceptr address, size_t count) {
  std::vector<T> values(count);
  CHECK(cuMemcpyDtoH(values.data(), address, count * sizeof(T)));
  return values;
}

inline std::vector<float> ramp(size_t count, float step = 1.0f) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = step * static_cast<float>(i);
  return values;
}

// A digest of what came out, for the output.
inline uint64_t digest(const void* data, size_t bytes) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211u;
  return hash;
}

template <class T>
inline void report(const char* what, const std::vector<T>& values) {
  std::printf("%s %016" PRIx64 "\n", what, digest(values.data(), values.size() * sizeof(T)));
}

inline void launch(CUfunction function, unsigned grid, unsigned block, std::vector<void*> parameters,
                   CUstream stream = nullptr, unsigned shared_bytes = 0) {
  CHECK(cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared_bytes, stream, parameters.data(), nullptr));
}

#endif  // KERNCAP_CLIENT_H
