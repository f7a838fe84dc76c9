// Events, and streams that wait for them or for values in memory.
#include <algorithm>
#include <thread>

#include "memory.h"

using namespace rig;

namespace {

CUresult find_event(CUevent handle, Event** event) {
  if (CUresult error = enter_without_context()) return error;
  *event = as<Event>(handle, Magic::event);
  return *event && !(*event)->gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult record(CUevent handle, CUstream stream_handle) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Event* event = nullptr;
  if (CUresult error = find_event(handle, &event)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(stream_handle, context, &stream)) return error;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (stream->capture) {
      event->capture = stream->capture;
      event->capture_tail = stream->capture_tail;
      event->op = nullptr;
      return CUDA_SUCCESS;
    }
  }
  OpPtr op;
  if (CUresult error = submit(stream, Work(), &op)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  event->op = op;
  event->capture = nullptr;
  return CUDA_SUCCESS;
}

template <class T>
CUresult wait_value(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto* where = static_cast<T*>(Memory::instance().host(address, sizeof(T)));
  if (!where) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.other = [where, value, flags] {
    for (;;) {
      T now = __atomic_load_n(where, __ATOMIC_ACQUIRE);
      bool met = (flags & 3) == CU_STREAM_WAIT_VALUE_EQ    ? now == value
                 : (flags & 3) == CU_STREAM_WAIT_VALUE_AND ? (now & value) != 0
                 : (flags & 3) == CU_STREAM_WAIT_VALUE_NOR
                     ? static_cast<T>(~(now | value)) != 0
                     : static_cast<std::make_signed_t<T>>(now - value) >= 0;
      if (met) return CUDA_SUCCESS;
      std::this_thread::yield();
    }
  };
  return submit(stream, std::move(work));
}

template <class T>
CUresult write_value(CUstream handle, CUdeviceptr address, T value) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto* where = static_cast<T*>(Memory::instance().host(address, sizeof(T)));
  if (!where) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.other = [where, value] {
    __atomic_store_n(where, value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
  };
  return submit(stream, std::move(work));
}

}  // namespace

RIG_API cuEventCreate(CUevent* out, unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  auto* event = new Event;
  event->context = context;
  event->flags = flags;
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

RIG_API cuEventDestroy_v2(CUevent handle) {
  Event* event = nullptr;
  if (CUresult error = find_event(handle, &event)) return error;
  event->gone = true;
  return CUDA_SUCCESS;
}
RIG_API cuEventDestroy(CUevent handle) {
  return cuEventDestroy_v2(handle);
}

RIG_API cuEventRecord(CUevent handle, CUstream stream) {
  return record(handle, stream);
}
RIG_API cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned) {
  return record(handle, stream);
}

RIG_API cuEventQuery(CUevent handle) {
  Event* event = nullptr;
  if (CUresult error = find_event(handle, &event)) return error;
  if (CUresult error = unless_capturing()) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->op && !event->op->done) return CUDA_ERROR_NOT_READY;
  return usable(event->context);
}

RIG_API cuEventSynchronize(CUevent handle) {
  Event* event = nullptr;
  if (CUresult error = find_event(handle, &event)) return error;
  OpPtr op;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    op = event->op;
  }
  wait(op);
  write_printed();
  return usable(event->context);
}

namespace {

CUresult elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  Event *start = nullptr, *end = nullptr;
  if (CUresult error = find_event(start_handle, &start)) return error;
  if (CUresult error = find_event(end_handle, &end)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->op || !end->op) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->op->done || !end->op->done) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->op->finished - start->op->finished).count();
  return CUDA_SUCCESS;
}

}  // namespace

RIG_API cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return elapsed(ms, start, end);
}
RIG_API cuEventElapsedTime_v2(float* ms, CUevent start, CUevent end) {
  return elapsed(ms, start, end);
}

RIG_API cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Event* event = nullptr;
  if (CUresult error = find_event(handle, &event)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(stream_handle, context, &stream)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (!stream->capture) {  // the stream joins
      stream->capture = event->capture;
      stream->capture_tail.clear();
      event->capture->members.insert(stream);
    }
    for (GraphNode* node : event->capture_tail) {
      auto& tail = stream->capture_tail;
      if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
    }
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    if (!event->op || event->op->done) return CUDA_SUCCESS;
    stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->op && !event->op->done) enqueue(stream, Work(), {event->op});
  return CUDA_SUCCESS;
}

RIG_API cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return wait_value<uint32_t>(stream, address, value, flags);
}
RIG_API cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return wait_value<uint64_t>(stream, address, value, flags);
}
RIG_API cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return write_value<uint32_t>(stream, address, value);
}
RIG_API cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return write_value<uint64_t>(stream, address, value);
}
