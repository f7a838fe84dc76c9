// What the wrappers learn from the target's own calls: kernels, modules, streams, graphs.
//
// Read by the capture; filled by the wrappers. Nothing here calls the driver while it holds a lock.
#ifndef KERNCAP_CUDA_REGISTRY_H
#define KERNCAP_CUDA_REGISTRY_H

#include <string>
#include <vector>

#include "common/launch.h"
#include "cuda/cuda_api.h"

namespace kerncap::cuda {

// The kernel behind a handle that a launch was made with (CUfunction or CUkernel): lock-free where
// it is known, asks the driver for name, module and layout where it is not. Null: the driver
// doesn't know the handle either.
Kernel* kernel_of(CUfunction function) noexcept;

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
};
std::vector<ContextEntry> contexts() noexcept;

// Whether any stream of this process captures a graph now: no synchronising, no copy then.
bool is_capturing() noexcept;

// Refused by name when a launch could reach them: arrays and textures that are alive.
struct Opaque {
  size_t arrays = 0, textures = 0, surfaces = 0;
};
Opaque opaque_objects() noexcept;

void reset_after_fork() noexcept;

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_REGISTRY_H
