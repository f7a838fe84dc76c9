// Code objects, the executables that are made of them, and their kernels and variables.
#ifndef KERNCAP_HIP_CODE_OBJECTS_H
#define KERNCAP_HIP_CODE_OBJECTS_H

#include <string>
#include <vector>

#include "common/launch.h"
#include "common/memory_map.h"
#include "hip/hsa_api.h"

namespace kerncap::hip {

// A kernel with what its packets do not say.
struct HipKernel : Kernel {
  uint32_t static_group_bytes = 0;  // of its own LDS; what a packet has beyond is dynamic
};

// By the object that packets name, without a lock. Null: none of the target's own (a runtime's copy
// kernel), or not seen when it was loaded.
HipKernel* kernel_of(uint64_t kernel_object) noexcept;

// The variables of these names in a kernel's executable.
std::vector<Allocation> variables_of(const Module& module, const std::vector<std::string>& names);

// What the loader added to the addresses in the image of a kernel. False: its file does not name the kernel.
bool load_delta_of(const Kernel& kernel, uint64_t* delta) noexcept;

// --- for the wrappers -----------------------------------------------------------------------------

void note_reader(Reader reader, Image* image) noexcept;
void forget_reader(Reader reader) noexcept;
void note_loaded(Executable executable, Agent agent, Reader reader) noexcept;
// Frozen: its symbols have their addresses.
void note_executable(Executable executable) noexcept;
void forget_executable(Executable executable) noexcept;

// The runtime has shut down, or the process was forked.
void forget_code() noexcept;
void lock_code() noexcept;
void unlock_code() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_CODE_OBJECTS_H
