// Device times of kernels by CUPTI, for --list: its activity records.
//
// A record is given to its launch by the kernel's name, grid, block, context and stream, and
// among launches alike by their order. CUPTI's external correlation ids would say it directly, but at the
// driver's calls, where the shim is, it tells them of none that the runtime makes (seen with CUPTI 13.0:
// three of four).
//
// No part of CUPTI is needed to build; its library is found in the process or beside what the process has
// loaded. It is never taken from a profiler that is there already, and left to one that comes.
#ifndef KERNCAP_CUDA_ACTIVITY_H
#define KERNCAP_CUDA_ACTIVITY_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/listing_rows.h"
#include "common/loaded.h"

namespace kerncap::cuda::activity {

// Before a launch. False: CUPTI does not measure, and `clock` says why. The first call of a process starts
// it.
bool is_on() noexcept;
// CUPTI's numbers of the launch's context and stream.
uint64_t stream_of(const Launch& launch) noexcept;
// What CUPTI has collected goes into the rows. `is_last`: also what is not complete yet.
void collect(bool is_last) noexcept;
// Another user of CUPTI is about to take the buffers.
void leave() noexcept;
const char* clock(std::string* reason);
void forget_after_fork() noexcept;

// --- the library (activity_library.cpp) -------------------------------------------------------------

// The functions that are called. Source: cupti_activity.h and cupti_callbacks.h of CUDA 12.4 to 13.5.
struct Cupti {
  using Requested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
  using Completed = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
  int (*cuptiSubscribe)(void** subscriber, void (*callback)(), void* data) = nullptr;
  int (*cuptiUnsubscribe)(void* subscriber) = nullptr;
  int (*cuptiActivityRegisterCallbacks)(Requested requested, Completed completed) = nullptr;
  int (*cuptiActivityEnable)(int kind) = nullptr;
  int (*cuptiActivityDisable)(int kind) = nullptr;
  int (*cuptiActivityFlushAll)(uint32_t flag) = nullptr;
  int (*cuptiActivityGetNextRecord)(uint8_t* buffer, size_t valid, uint8_t** record) = nullptr;
  int (*cuptiGetContextId)(void* context, uint32_t* number) = nullptr;  // this and the next may be missing
  int (*cuptiGetStreamIdEx)(void* context, void* stream, uint8_t per_thread, uint32_t* number) = nullptr;
  int (*cuptiGetTimestamp)(uint64_t* now) = nullptr;
  int (*cuptiGetResultString)(int result, const char** text) = nullptr;
};

// The one that the process has, else one that goes with this driver. False: `why` there is none.
bool find_library(int driver_version, Cupti* cupti, std::string* why);

// --- records (activity_records.cpp) ------------------------------------------------------------------

constexpr int kind_memcpy = 1, kind_memset = 2, kind_concurrent_kernel = 10;

// From CUPTI's clock to now_ns()'s.
Span on_host(uint64_t start, uint64_t end) noexcept;

// One buffer, on any thread; its kernels' times go into the rows.
void read_buffer(const Cupti& cupti, uint8_t* buffer, size_t valid) noexcept;

}  // namespace kerncap::cuda::activity

#endif  // KERNCAP_CUDA_ACTIVITY_H
