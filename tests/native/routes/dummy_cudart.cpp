// The runtime's door to the driver, as a shared libcudart has it: it asks the driver's own resolver,
// which it fetched before anybody could wrap it.
#include <dlfcn.h>

#include "cuda/cuda_api.h"

using Resolver = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

extern "C" {
extern __attribute__((visibility("default"))) Resolver dummy_cudart_resolver;
Resolver dummy_cudart_resolver = nullptr;  // set by the client: the driver's own

__attribute__((visibility("default"))) int cudaGetDriverEntryPoint(const char* name, void** function,
                                                                   unsigned long long flags, int*) {
  return dummy_cudart_resolver(name, function, 13000, flags, nullptr);
}

__attribute__((visibility("default"))) int cudaGetDriverEntryPoint_ptsz(const char* name, void** function,
                                                                        unsigned long long flags, int*) {
  return dummy_cudart_resolver(name, function, 13000, flags == 0 ? 2 : flags, nullptr);
}

__attribute__((visibility("default"))) int cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                                            unsigned int version,
                                                                            unsigned long long flags, int*) {
  return dummy_cudart_resolver(name, function, static_cast<int>(version), flags, nullptr);
}

__attribute__((visibility("default"))) int cudaGetDriverEntryPointByVersion_ptsz(
    const char* name, void** function, unsigned int version, unsigned long long flags, int*) {
  return dummy_cudart_resolver(name, function, static_cast<int>(version), flags == 0 ? 2 : flags, nullptr);
}
}
