// What the wrappers learn from the target's own calls: kernels, modules, streams, graphs.
//
// Read by the capture; filled by the wrappers. Nothing here calls the driver while it holds a lock.
#ifndef KERNCAP_CUDA_REGISTRY_H
#define KERNCAP_CUDA_REGISTRY_H

#include <atomic>
#include <string>
#include <vector>

#include "common/handle_table.h"
#include "common/launch.h"
#include "cuda/cuda_api.h"

namespace kerncap::cuda {

namespace detail {
extern HandleTable kernels;  // by CUfunction and CUkernel
Kernel* make_kernel(void* handle) noexcept;
extern std::atomic<int> stream_captures;  // that go on
// Some of those whose device is known, each at a place of its own.
extern std::atomic<CUcontext> known_contexts[64];
inline std::atomic<CUcontext>& place_of(CUcontext context) noexcept {
  auto number = reinterpret_cast<uintptr_t>(context);
  return known_contexts[(number >> 4 ^ number >> 12) % 64];
}
}  // namespace detail

// The kernel behind a handle that a launch was made with (CUfunction or CUkernel): lock-free where
// it is known, asks the driver for name, module and layout if it is not. Null: the driver
// doesn't know the handle either.
inline Kernel* kernel_of(CUfunction function) noexcept {
  Kernel* known = detail::kernels.find(function);
  return __builtin_expect(known != nullptr, 1) ? known : detail::make_kernel(function);
}

Module* module_of(CUmodule module) noexcept;
Module* library_of(CUlibrary library) noexcept;

struct Global {
  std::string name;
  CUdeviceptr address = 0;
  size_t size = 0;
  bool managed = false;
};

// Those of `names` that `module` has in the current context. Calls the driver.
std::vector<Global> globals_of(const Module& module, const std::vector<std::string>& names) noexcept;

// Streams of a context that the target made and has not destroyed, the default ones left out.
std::vector<CUstream> streams_of(CUcontext context) noexcept;
// Contexts that the target has used, by device.
struct ContextEntry {
  CUcontext context;
  int device;
  uint64_t serial;  // another one if a context of the same handle came after a reset
};
std::vector<ContextEntry> contexts() noexcept;
// 0 for a context that is not known.
uint64_t context_serial(CUcontext context) noexcept;

// Whether any stream of this process captures a graph now: no synchronising, no copy then.
inline bool is_capturing() noexcept {
  return detail::stream_captures.load(std::memory_order_acquire) != 0;
}

void reset_after_fork() noexcept;

// --- for the wrappers ---------------------------------------------------------------------------

// The target loaded an image; `image` may be null.
void note_module(CUmodule module, Image* image) noexcept;
void note_library(CUlibrary library, Image* image) noexcept;
// A library's module in a context: the same Module under another handle.
void note_library_module(CUmodule module, CUlibrary library) noexcept;
// A handle that the target got for a function of a module or library: name and layout are read at
// its first launch.
void note_function(CUfunction function, CUmodule module, const char* name) noexcept;
void note_kernel(CUkernel kernel, CUlibrary library, const char* name) noexcept;
// The function of a CUkernel in a context: launches of both are launches of one kernel.
void note_kernel_function(CUfunction function, CUkernel kernel) noexcept;
// Before the driver's own call: the handles may come back for another image.
void forget_module(CUmodule module) noexcept;
void forget_library(CUlibrary library) noexcept;
// The last context of a device ends: its modules go, and every function.
void forget_device_modules(int device) noexcept;

void note_stream(CUstream stream) noexcept;    // made in the current context
void forget_stream(CUstream stream) noexcept;  // before it is destroyed
void note_context(CUcontext context, int device) noexcept;
void note_current_context() noexcept;
// The same where it is known that `context` is the current one.
inline void note_current_context(CUcontext context) noexcept {
  if (detail::place_of(context).load(std::memory_order_relaxed) != context) note_current_context();
}
// Before it is destroyed: its modules, its memory and its streams go with it.
void forget_context(CUcontext context) noexcept;
void forget_device(int device) noexcept;
// The ordinal of a context's device; -1 if it is not known.
int device_of(CUcontext context) noexcept;
int current_device() noexcept;
// A stream's context; the current one for the default streams.
CUcontext context_of(CUstream stream, bool per_thread) noexcept;

// A stream's capture: `begin` before the driver is asked (and `end` again if it refuses), so that
// is_capturing() is never false while one goes on. `end` asks the driver whether it is over.
void begin_stream_capture(CUstream stream, bool per_thread) noexcept;
void abandon_stream_capture(CUstream stream, bool per_thread) noexcept;
void end_stream_capture(CUstream stream, bool per_thread) noexcept;

// Whether this stream captures now (also one that an event drew into another stream's capture).
bool captures_now(CUstream stream, bool per_thread) noexcept;
// The node that a capturing stream's last call became; null if that is not known.
CUgraphNode captured_last(CUstream stream, bool per_thread) noexcept;

// Registers what fork.cpp does around a fork; once, when the process turns out to be under capture.
void watch_fork() noexcept;

namespace detail {
void lock_registry() noexcept;
void unlock_registry() noexcept;
void forget_kernels_after_fork() noexcept;
void lock_streams() noexcept;
void unlock_streams() noexcept;
void forget_streams_after_fork() noexcept;
}  // namespace detail

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_REGISTRY_H
