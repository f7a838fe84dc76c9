// Another tool's preload: it wraps dlsym and one driver function, in the ways that such tools have.
#include <dlfcn.h>

#include "cuda/cuda_api.h"

extern "C" {
__attribute__((visibility("default"))) int other_launches = 0;
__attribute__((visibility("default"))) int other_lookups = 0;

// Found by the linker's order: what comes after this library.
__attribute__((visibility("default"))) CUresult cuLaunchGridAsync(CUfunction f, int width, int height,
                                                                  CUstream stream) {
  using Launch = CUresult (*)(CUfunction, int, int, CUstream);
  static auto next = reinterpret_cast<Launch>(dlsym(RTLD_NEXT, "cuLaunchGridAsync"));
  ++other_launches;
  return next(f, width, height, stream);
}

__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  using Lookup = void* (*)(void*, const char*);
#if defined(__x86_64__)
  const char* version = "GLIBC_2.2.5";
#else
  const char* version = "GLIBC_2.17";
#endif
  // No guarded static: a sanitizer that is still starting calls this too.
  static Lookup next = nullptr;
  if (next == nullptr) next = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", version));
  ++other_lookups;
  return next(handle, name);
}
}
