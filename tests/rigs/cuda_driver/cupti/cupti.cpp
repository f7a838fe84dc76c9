// The stand-in for CUPTI's activity API, libcupti.so.13: the functions that the shim calls, over what the
// stand-in driver tells of its launches. Made from the declarations of cupti_activity.h alone.
//
// As the real one it gives a launch's correlation and its kernel's record in buffers of their own, here the
// kernel first; an external correlation only where the kind of driver calls is enabled; one set of callbacks
// a process; no times of what it had recorded when somebody gives it another clock; the stream of a graph's
// launch for its kernels, too.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include <cuda.h>

#include "rig.h"

#define CUPTI_EXPORT extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kind_memcpy = 1, kind_memset = 2, kind_driver = 4, kind_kernel = 10, kind_correlation = 39;
constexpr int success = 0, invalid_parameter = 1, limit_reached = 12, queue_empty = 34,
              multiple_subscribers = 39;
constexpr size_t kernel_bytes = 208 /* and of a copy, for simplicity */, correlation_bytes = 32;
constexpr uint32_t context_number = 1;

using Requested = void (*)(uint8_t**, size_t*, size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
using Bytes = std::vector<uint8_t>;

struct Profiler {
  std::mutex mutex;
  std::set<int> kinds;
  std::set<uint32_t> calls;  // of the driver, one by one
  Requested requested = nullptr;
  Completed completed = nullptr;
  bool subscribed = false;
  Bytes kernels, correlations;
};
Profiler& profiler() {
  static auto* only = new Profiler;
  return *only;
}

struct External {
  int kind;
  uint64_t id;
};
thread_local std::vector<External> externals;

template <class T>
void put(Bytes& record, size_t at, T value) {
  std::memcpy(record.data() + at, &value, sizeof value);
}

void append(Bytes& to, const Bytes& record) {
  to.insert(to.end(), record.begin(), record.end());
}

void launched(uint32_t correlation) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  bool is_traced = profiler().kinds.count(kind_driver) || !profiler().calls.empty();
  if (!is_traced || !profiler().kinds.count(kind_correlation)) return;
  for (const External& external : externals) {
    Bytes record(correlation_bytes);
    put<int32_t>(record, 0, kind_correlation);
    put<int32_t>(record, 4, external.kind);
    put<uint64_t>(record, 8, external.id);
    put<uint32_t>(record, 16, correlation);
    append(profiler().correlations, record);
  }
}

void ran(const rig_kernel_run* run) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  if (!profiler().kinds.count(kind_kernel)) return;
  Bytes record(kernel_bytes);
  put<int32_t>(record, 0, kind_kernel);
  put<uint64_t>(record, 16, run->start_ns);
  put<uint64_t>(record, 24, run->end_ns);
  for (size_t i = 0; i < 3; ++i) {
    put<uint32_t>(record, 52 + 4 * i, run->grid[i]);
    put<uint32_t>(record, 64 + 4 * i, run->block[i]);
  }
  put<uint32_t>(record, 44, context_number);
  put<uint32_t>(record, 48, run->stream);
  put<uint32_t>(record, 92, run->correlation);
  put<const char*>(record, 104, run->name);
  put<uint64_t>(record, 144, run->is_of_graph ? 1 : 0);
  append(profiler().kernels, record);
}

void copied(const rig_copy_run* run) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  int kind = run->is_fill ? kind_memset : kind_memcpy;
  if (!profiler().kinds.count(kind)) return;
  Bytes record(kernel_bytes);
  put<int32_t>(record, 0, kind);
  put<uint8_t>(record, 4, run->direction);
  put<uint64_t>(record, 8, run->bytes);
  put<uint64_t>(record, 16, run->start_ns);
  put<uint64_t>(record, 24, run->end_ns);
  put<uint32_t>(record, 36, context_number);
  put<uint32_t>(record, 40, run->stream);
  append(profiler().kernels, record);
}

void deliver(const Bytes& records, size_t record_bytes, Requested requested, Completed completed) {
  for (size_t at = 0; at < records.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0;
    requested(&buffer, &size, &most);
    if (!buffer || size < record_bytes) return;
    size_t part = std::min(size / record_bytes * record_bytes, records.size() - at);
    std::memcpy(buffer, records.data() + at, part);
    completed(nullptr, 0, buffer, size, part);
    at += part;
  }
}

int subscribe_result() {
  const char* text = std::getenv("KERNCAP_RIG_CUPTI_SUBSCRIBED");
  return text && *text == '1' ? multiple_subscribers : success;
}

}  // namespace

CUPTI_EXPORT cuptiSubscribe(void** subscriber, void (*)(), void*) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  if (subscribe_result() != success || profiler().subscribed) return multiple_subscribers;
  profiler().subscribed = true;
  *subscriber = &profiler();
  return success;
}

CUPTI_EXPORT cuptiUnsubscribe(void*) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  profiler().subscribed = false;
  return success;
}

CUPTI_EXPORT cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  profiler().requested = requested;
  profiler().completed = completed;
  return success;
}

CUPTI_EXPORT cuptiActivityRegisterTimestampCallback(uint64_t (*)()) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  for (size_t at = 0; at < profiler().kernels.size(); at += kernel_bytes)
    std::memset(profiler().kernels.data() + at + 16, 0, 16);
  return success;
}

CUPTI_EXPORT cuptiGetTimestamp(uint64_t* now) {
  *now = rig_clock_ns();
  return success;
}

CUPTI_EXPORT cuptiGetContextId(CUcontext, uint32_t* number) {
  *number = context_number;
  return success;
}

CUPTI_EXPORT cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t per_thread, uint32_t* number) {
  unsigned long long id = 0;
  if (cuStreamGetId(per_thread ? CU_STREAM_PER_THREAD : stream, &id) != CUDA_SUCCESS)
    return invalid_parameter;
  *number = static_cast<uint32_t>(id);
  return success;
}

CUPTI_EXPORT cuptiActivityEnable(int kind) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  profiler().kinds.insert(kind);
  rig_trace(launched, ran, copied);
  return success;
}

CUPTI_EXPORT cuptiActivityDisable(int kind) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  profiler().kinds.erase(kind);
  return success;
}

CUPTI_EXPORT cuptiActivityEnableDriverApi(uint32_t call, uint8_t enable) {
  std::lock_guard<std::mutex> lock(profiler().mutex);
  if (enable)
    profiler().calls.insert(call);
  else
    profiler().calls.erase(call);
  return success;
}

CUPTI_EXPORT cuptiActivityFlushAll(uint32_t) {
  Bytes kernels, correlations;
  Requested requested = nullptr;
  Completed completed = nullptr;
  {
    std::lock_guard<std::mutex> lock(profiler().mutex);
    kernels.swap(profiler().kernels);
    correlations.swap(profiler().correlations);
    requested = profiler().requested;
    completed = profiler().completed;
  }
  if (!requested || !completed) return invalid_parameter;
  deliver(kernels, kernel_bytes, requested, completed);
  deliver(correlations, correlation_bytes, requested, completed);
  return success;
}

CUPTI_EXPORT cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  uint8_t* next = buffer;
  if (*record) {
    int32_t kind = 0;
    std::memcpy(&kind, *record, sizeof kind);
    next = *record + (kind == kind_correlation ? correlation_bytes : kernel_bytes);
  }
  if (next >= buffer + valid) return limit_reached;
  *record = next;
  return success;
}

CUPTI_EXPORT cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
  externals.push_back({kind, id});
  return success;
}

CUPTI_EXPORT cuptiActivityPopExternalCorrelationId(int kind, uint64_t* last) {
  for (size_t i = externals.size(); i-- > 0;) {
    if (externals[i].kind != kind) continue;
    if (last) *last = externals[i].id;
    externals.erase(externals.begin() + static_cast<std::ptrdiff_t>(i));
    return success;
  }
  return queue_empty;
}

CUPTI_EXPORT cuptiGetResultString(int, const char** text) {
  *text = "a stand-in's error";
  return success;
}
