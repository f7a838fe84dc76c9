// What kernels and clients of the stand-in driver may use of it, besides cuda.h.
//
// A kernel is a host function: `extern "C" void rig_kernel_<name>(const struct rig_launch*)`, called
// once for each launch, on the worker thread of its stream. It is found in the program (link with
// -rdynamic), in any library it has loaded globally, or in the libraries that KERNCAP_RIG_KERNELS
// lists (separated by ':').
#ifndef KERNCAP_RIG_H
#define KERNCAP_RIG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rig_launch {
  const char* name;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes;  // dynamic
  void* shared;           // that many bytes, garbage
  int device;
  int cooperative;
  size_t parameter_count;
  const void* const* parameters;  // each parameter's bytes
  const uint8_t* parameter_buffer;
  size_t parameter_bytes;
  void* module;         // for rig_global
  uint64_t attributes;  // with which it was launched: a bit for each number
};

typedef void (*rig_kernel)(const struct rig_launch*);

// Where the host finds the `bytes` bytes at a device address. In a kernel an address outside live
// allocations ends the kernel there (it does not return) and the context fails with
// CUDA_ERROR_ILLEGAL_ADDRESS; elsewhere it gives NULL.
void* rig_span(uint64_t address, size_t bytes);
// One byte of it: for kernels that keep within what they were given.
void* rig_host(uint64_t address);
// A variable of the kernel's module, on the host; its size if `bytes` is not NULL. NULL: there is none.
void* rig_global(const struct rig_launch* launch, const char* name, size_t* bytes);
// The element at (x, y, z) of a texture or surface object, or of a level of it, on the host, as it is stored:
// no filter, no conversion. One that is not there ends the kernel as an address would.
void* rig_texel(uint64_t handle, int is_surface, size_t x, size_t y, size_t z, unsigned level, size_t bytes);
// What a conditional node's handle says from now on (cudaGraphSetConditional).
void rig_set_condition(uint64_t handle, unsigned value);
// In a kernel: what it prints, as one printf. A call that waits writes it, or a thread of the driver's.
void rig_print(const char* text);
// In a kernel: memory of the context's heap, as malloc of kernels gives it. No call of the driver knows the
// address.
uint64_t rig_heap(const struct rig_launch* launch, size_t bytes);
// Ends the kernel; its context fails with `error` (a CUresult such as 700 or 719).
void rig_fail(int error);

// Arms an injected failure, as the environment variables do (README.md lists them):
// rig_control("OOM_AFTER", 0). Returns 0, or -1 for a name it does not know.
int rig_control(const char* name, long long value);
// How often kernels of this name have run; NULL: all kernels.
unsigned long long rig_runs(const char* name);

// Who wants to know of launches, of kernels that ran and of streams' copies, as CUPTI does; null ends it.
// `launched` comes on the thread that calls the driver, the others on the one that did it; a graph's kernels
// have its number and stream.
struct rig_kernel_run {
  const char* name;
  uint32_t grid[3], block[3];
  uint32_t correlation;
  uint32_t stream;  // cuStreamGetId's
  int is_of_graph;
  uint64_t start_ns, end_ns;
};
struct rig_copy_run {
  int is_fill;
  uint8_t direction;  // CUpti_ActivityMemcpyKind
  uint32_t stream;
  uint64_t bytes, start_ns, end_ns;
};
void rig_trace(void (*launched)(uint32_t correlation), void (*ran)(const struct rig_kernel_run*),
               void (*copied)(const struct rig_copy_run*));
uint64_t rig_clock_ns(void);

#ifdef __cplusplus
}

// The i-th parameter as a T.
template <class T>
inline T rig_parameter(const rig_launch* launch, size_t index) {
  T value;
  __builtin_memcpy(&value, launch->parameters[index], sizeof value);
  return value;
}

// An array of n T at a device address.
template <class T>
inline T* rig_array(uint64_t address, size_t n) {
  return static_cast<T*>(rig_span(address, n * sizeof(T)));
}
#endif

#endif  // KERNCAP_RIG_H
