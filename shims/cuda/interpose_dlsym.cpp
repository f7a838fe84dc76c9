// What dlsym says of the driver's functions: our wrappers, by the rules of common/libdl.cpp.
#include <dlfcn.h>

#include "common/libdl.h"
#include "cuda/interpose.h"

namespace kerncap {
namespace cuda {
namespace {

// The library whose wrapper we call: what it asks for is meant to come after itself.
bool is_next_wrapper(const void* caller, size_t hook) noexcept {
  loaded::Object object;
  return loaded::object_of(caller, &object) && object.holds(next_of(hook));
}

void* driver_symbol(void* handle, const char* name, const char* version) noexcept {
  size_t hook = find_hook(name);
  void* next = next_of(hook);  // before the lookup, which is to be the last word for dlerror
  void* found = look_up(handle, name, version);
  if (found != hook_at(hook).wrapper) return wrapper_for_symbol(name, found);
  // Our own export, with no driver behind it: without us there would be nothing to find.
  return next != nullptr ? found : look_up(RTLD_NEXT, name, version);
}

}  // namespace
}  // namespace cuda

// cu[A-Z]…, so that cudnnCreate, cublasCreate and cufftExec pass.
bool is_own_name(const char* name) noexcept {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z' &&
         cuda::find_hook(name) < cuda::hook_count();
}

KerncapRoute own_route(void* handle, const char* name, const char* version, void* caller,
                       const KerncapRoute& on) noexcept {
  // Another interposer looks for what it wraps: it gets just what it would without us.
  if (handle == RTLD_NEXT && caller_defines(caller, name)) return on;
  if (cuda::is_next_wrapper(caller, cuda::find_hook(name))) return on;
  return {cuda::driver_symbol(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name, version), nullptr};
}

}  // namespace kerncap
