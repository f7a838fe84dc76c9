// For the programs of this folder: a call that must succeed, and results told by value.
#ifndef KERNCAP_HIP_PROGRAMS_CHECKS_H
#define KERNCAP_HIP_PROGRAMS_CHECKS_H

#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const hipError_t status = (call);                                                       \
    if (status != hipSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status)); \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (0)

template <class T>
T* device_array(size_t count) {
  T* array = nullptr;
  CHECK(hipMalloc(&array, count * sizeof(T)));
  CHECK(hipMemset(array, 0, count * sizeof(T)));
  return array;
}

template <class T>
T* to_device(const std::vector<T>& values) {
  T* const array = device_array<T>(values.size());
  CHECK(hipMemcpy(array, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  return array;
}

template <class T>
std::vector<T> to_host(const T* array, size_t count) {
  std::vector<T> values(count);
  CHECK(hipMemcpy(values.data(), array, count * sizeof(T), hipMemcpyDeviceToHost));
  return values;
}

#endif  // KERNCAP_HIP_PROGRAMS_CHECKS_H
