// What the program does between the launches of a range that may order its streams.
//
// Recorded from the first launch of a range on; until then a hooked call costs one load.
#ifndef KERNCAP_CUDA_STREAM_ORDER_H
#define KERNCAP_CUDA_STREAM_ORDER_H

#include <atomic>

#include "common/json.h"
#include "common/launch.h"
#include "cuda/cuda_api.h"

namespace kerncap::cuda::stream_order {

enum class Call : uint8_t {
  launch,             // of the range
  record,             // an event
  wait,               // a stream, for an event
  forget,             // an event that is destroyed
  synchronize,        // the host has waited for a stream
  synchronize_event,  // and for an event
  synchronize_all,    // and for the current context
  work,               // of a stream, which the host does not wait for
  unknown             // what may order anything; work of its stream, if it has one
};

extern std::atomic<bool> recording;

// After a call that succeeded. A null stream is the default one, the thread's own with `per_thread`.
void note(Call call, CUevent event = nullptr) noexcept;
void note(Call call, CUstream stream, bool per_thread, CUevent event = nullptr) noexcept;
// Of a graph (graph_order.h): `event`, and the stream that a node has in it, are numbers of ours.
void note(Call call, CUstream stream, bool per_thread, uint64_t event) noexcept;
void note_branch(Call call, uint64_t branch, CUcontext context, uint64_t event) noexcept;

// A launch of the range is next: what came since the one before it, and the launch itself. The first begins
// to record, the last ends it.
void write(json::Writer& json, const Launch& launch, bool is_last) noexcept;
// The same for a graph that is the range.
void begin() noexcept;
void end() noexcept;

void lock() noexcept;
void unlock() noexcept;
void forget_after_fork() noexcept;

// `result` itself.
template <typename... Arguments>
CUresult noted(CUresult result, Arguments... arguments) noexcept {
  if (recording.load(std::memory_order_relaxed) && result == CUDA_SUCCESS) note(arguments...);
  return result;
}

}  // namespace kerncap::cuda::stream_order

#endif  // KERNCAP_CUDA_STREAM_ORDER_H
