// How a pointer to a driver function that the target asks for becomes a pointer to our wrapper.
#ifndef KERNCAP_CUDA_INTERPOSE_H
#define KERNCAP_CUDA_INTERPOSE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/libdl.h"
#include "common/loaded.h"
#include "common/this_thread.h"
#include "cuda/cuda_api.h"

namespace kerncap::cuda {

// One hooked function. `wrapper` is the exported symbol's address: whatever route a program takes, it
// sees the same pointer.
struct Hook {
  const char* name;
  void* wrapper;
  size_t slot;  // offset of its pointer in Driver
};

size_t hook_count() noexcept;
const Hook& hook_at(size_t index) noexcept;
// hook_count() for a name that is not hooked.
size_t find_hook(const char* name) noexcept;

// What the wrappers call for this hook (another library's wrapper if one comes between us and the
// driver); null if the driver lacks it or is not loaded.
void* next_of(size_t hook) noexcept;
// The driver's own symbol.
void* own_symbol_of(size_t hook) noexcept;

// The wrapper for a pointer that dlsym or an import table gave for `name`; `real` itself if it is
// none of the hooked functions.
void* wrapper_for_symbol(const char* name, void* real) noexcept;
// The same for an answer of cuGetProcAddress, whose name has no version in it: by the pointer, and
// where that is no exported symbol's address, by name, version and flags.
void* wrapper_for_answer(const char* name, void* real, int version, uint64_t flags) noexcept;

// Routes the import tables of objects that are loaded but were not bound to us: with RTLD_DEEPBIND, or
// with no preload at all. Cheap when nothing was loaded since.
void patch_import_tables() noexcept;

// Points what the object imports at what `replacement` gives for its name, unless that is null.
void redirect_imports(const loaded::Object& object, void* (*replacement)(const char* name)) noexcept;

extern std::atomic<bool> is_under_capture;  // capturing_process() has said yes

// Counts a thread's way into a wrapper: what the driver (or another wrapper below us) calls on the way
// is passed straight through.
class Entry {
 public:
  __attribute__((always_inline)) Entry() noexcept {
    ThisThread& here = this_thread;
    here.has_called = true;
    watched_ = ++here.calls == 1 && here.own == 0 &&
               (is_under_capture.load(std::memory_order_acquire) || capturing_process());
  }
  ~Entry() noexcept { --this_thread.calls; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  // This call is the target's own, and the process is under capture.
  bool watched() const noexcept { return watched_; }

 private:
  bool watched_;
};

// Whether this thread has ever called one: a thread of the driver's own has not.
inline bool is_thread_of_target() noexcept {
  return this_thread.has_called;
}

// The wrappers, one for each hook, called by the exported function of that name (interpose.cpp).
namespace wrap {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) result symbol parameters noexcept;
#include "cuda/hooks.def"
}  // namespace wrap

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_INTERPOSE_H
