// A library that a program loads with RTLD_DEEPBIND: it binds to its own dependencies first.
#include <dlfcn.h>

#include "cuda/cuda_api.h"

extern "C" {
__attribute__((visibility("default"))) CUresult plugin_copy(void) {
  return cuMemcpy(1, 2, 3);
}
__attribute__((visibility("default"))) void* plugin_lookup(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return dlsym(driver, name);
}
}
