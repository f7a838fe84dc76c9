// How work runs: a thread for each stream that was used, order by dependencies.
//
// An operation waits for the one before it on its stream, and for those that the rules of the legacy
// default stream or an event name. These were all enqueued earlier, so nothing can wait in a circle.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "memory.h"

namespace rig {

namespace {

thread_local int per_thread_depth = 0;
thread_local std::map<Context*, Stream*>* own_streams = nullptr;  // never destroyed, as the contexts' stack

// For benchmarks: what can run at once runs on the calling thread.
bool synchronous() {
  static const bool on = [] {
    const char* text = std::getenv("KERNCAP_RIG_SYNCHRONOUS");
    return text && *text == '1';
  }();
  return on;
}

bool ready(const Op& op) {
  for (const OpPtr& dependency : op.dependencies)
    if (!dependency->done) return false;
  return true;
}

// A context that has failed runs nothing more; callbacks of the old kind still learn of it.
void execute(Op& op) {
  CUresult status = static_cast<CUresult>(op.context->sticky.load());
  if (op.work.callback) {
    InCallback inside;
    op.work.callback(op.stream->legacy ? nullptr : reinterpret_cast<CUstream>(op.stream), status,
                     op.work.data);
  } else if (status == CUDA_SUCCESS) {
    uint64_t started = trace_clock_ns();
    status = run_work(op.context, op.work);
    trace_copy(op.work, static_cast<uint32_t>(op.stream->id), started, trace_clock_ns());
    int healthy = 0;
    if (status != CUDA_SUCCESS) op.context->sticky.compare_exchange_strong(healthy, status);
  }
}

void finish(Stream* stream, const OpPtr& op) {
  op->finished = std::chrono::steady_clock::now();
  op->done = true;
  op->dependencies.clear();
  op->work = Work();
  stream->queue.pop_front();
  state().changed.notify_all();
}

void work_off(Stream* stream) {
  std::unique_lock<std::mutex> lock(state().mutex);
  for (;;) {
    state().changed.wait(
        lock, [&] { return stream->queue.empty() ? stream->gone : !stream->queue.front()->inlined; });
    if (stream->queue.empty()) break;
    OpPtr op = stream->queue.front();
    state().changed.wait(lock, [&] { return ready(*op); });
    lock.unlock();
    execute(*op);
    lock.lock();
    finish(stream, op);
  }
  stream->has_thread = false;
}

void start_thread(Stream* stream) {
  stream->has_thread = true;
  // Signals are the program's own threads' business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(work_off, stream).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Stream* own_stream(Context* context) {
  if (!own_streams) own_streams = new std::map<Context*, Stream*>;
  Stream*& stream = (*own_streams)[context];
  if (!stream || stream->gone) {
    std::lock_guard<std::mutex> lock(state().mutex);
    stream = make_stream(context, 0, 0);
  }
  return stream;
}

}  // namespace

PerThread::PerThread() {
  ++per_thread_depth;
}
PerThread::~PerThread() {
  --per_thread_depth;
}

Stream* make_stream(Context* context, unsigned flags, int priority) {
  auto* stream = new Stream;
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = state().next_id++;
  context->streams.insert(stream);
  return stream;
}

CUresult stream_of(CUstream handle, Context* context, Stream** out) {
  if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread_depth)) {
    *out = own_stream(context);
  } else if (!handle || handle == CU_STREAM_LEGACY) {
    *out = context->legacy;
  } else {
    *out = as<Stream>(handle, Magic::stream);
    if (!*out || (*out)->gone) return CUDA_ERROR_INVALID_HANDLE;
  }
  return usable((*out)->context);
}

OpPtr enqueue(Stream* stream, Work work, std::vector<OpPtr> dependencies) {
  auto op = std::make_shared<Op>();
  op->work = std::move(work);
  op->context = stream->context;
  op->stream = stream;
  op->dependencies = std::move(dependencies);
  if (stream->legacy) {
    for (Stream* other : stream->context->streams)
      if (other->blocking() && other->last && !other->last->done) op->dependencies.push_back(other->last);
  } else if (stream->blocking()) {
    const OpPtr& last = stream->context->legacy->last;
    if (last && !last->done) op->dependencies.push_back(last);
  }
  stream->queue.push_back(op);
  stream->last = op;
  if (!stream->has_thread) start_thread(stream);
  state().changed.notify_all();
  return op;
}

CUresult submit(Stream* stream, Work work, OpPtr* out) {
  std::unique_lock<std::mutex> lock(state().mutex);
  if (stream->capture) return capture_work(stream, work);
  if (stream->legacy) {
    for (Stream* other : stream->context->streams) {
      if (!other->capture || !other->blocking()) continue;
      other->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  bool idle = synchronous();
  if (idle)
    for (Stream* other : stream->context->streams) idle = idle && other->queue.empty();
  if (!idle) {
    OpPtr op = enqueue(stream, std::move(work));
    if (out) *out = op;
    return CUDA_SUCCESS;
  }
  auto op = std::make_shared<Op>();
  op->work = std::move(work);
  op->context = stream->context;
  op->stream = stream;
  op->inlined = true;
  stream->queue.push_back(op);
  stream->last = op;
  lock.unlock();
  execute(*op);
  lock.lock();
  finish(stream, op);
  if (out) *out = op;
  return CUDA_SUCCESS;
}

void wait(const OpPtr& op) {
  if (!op) return;
  std::unique_lock<std::mutex> lock(state().mutex);
  state().changed.wait(lock, [&] { return op->done; });
}

CUresult submit_and_wait(Stream* stream, Work work) {
  OpPtr op;
  if (CUresult error = submit(stream, std::move(work), &op)) return error;
  wait(op);
  return static_cast<CUresult>(stream->context->sticky.load());
}

void drain(Context* context) {
  std::vector<OpPtr> last;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    for (Stream* stream : context->streams)
      if (stream->last && !stream->last->done) last.push_back(stream->last);
  }
  for (const OpPtr& op : last) wait(op);
}

CUresult run_work(Context* context, Work& work) {
  switch (work.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return run_kernel(context, work.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return run_copy(work.copy, work.staged.get());
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return run_memset(work.memset);
    case CU_GRAPH_NODE_TYPE_HOST: {
      InCallback inside;
      work.host(work.data);
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return run_graph(context, work.child, nullptr);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:  // what was there is lost, at each launch
      garbage(alias_of(work.pointer), work.bytes, work.pointer >> 9);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      auto op = std::make_shared<Op>();
      op->done = true;
      op->finished = std::chrono::steady_clock::now();
      std::lock_guard<std::mutex> lock(state().mutex);
      work.event->op = op;
      work.event->capture = nullptr;
      state().changed.notify_all();
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
      OpPtr op;
      {
        std::lock_guard<std::mutex> lock(state().mutex);
        op = work.event->op;
      }
      wait(op);
      return CUDA_SUCCESS;
    }
    default:
      return work.other ? work.other() : CUDA_SUCCESS;
  }
}

}  // namespace rig

using namespace rig;

RIG_API cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  *out = reinterpret_cast<CUstream>(make_stream(context, flags, std::max(-5, std::min(priority, 0))));
  return CUDA_SUCCESS;
}
RIG_API cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

RIG_API cuStreamDestroy_v2(CUstream handle) {
  if (CUresult error = enter_without_context()) return error;
  auto* stream = as<Stream>(handle, Magic::stream);
  if (!stream || stream->gone) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard<std::mutex> lock(state().mutex);
  stream->gone = true;  // what is enqueued still runs
  stream->context->streams.erase(stream);
  state().changed.notify_all();
  return CUDA_SUCCESS;
}
RIG_API cuStreamDestroy(CUstream handle) {
  return cuStreamDestroy_v2(handle);
}

namespace {

// Querying and waiting disturb a capture: they end it.
CUresult unless_captured(Stream* stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!stream->capture) return CUDA_SUCCESS;
  stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult find_stream(CUstream handle, Stream** stream) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  return stream_of(handle, context, stream);
}

}  // namespace

RIG_API cuStreamSynchronize(CUstream handle) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  if (CUresult error = unless_captured(stream)) return error;
  OpPtr last;
  if (stream->legacy) {
    // Synchronising the legacy stream waits for all that it would wait for.
    if (CUresult error = submit(stream, Work(), &last)) return error;
  } else {
    std::lock_guard<std::mutex> lock(state().mutex);
    last = stream->last;
  }
  wait(last);
  write_printed();
  return usable(stream->context);
}

RIG_API cuStreamQuery(CUstream handle) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  if (CUresult error = unless_captured(stream)) return error;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    bool busy = stream->last && !stream->last->done;
    if (stream->legacy)
      for (Stream* other : stream->context->streams)
        busy = busy || (other->blocking() && other->last && !other->last->done);
    if (busy) return CUDA_ERROR_NOT_READY;
  }
  return usable(stream->context);
}

RIG_API cuStreamGetPriority(CUstream handle, int* priority) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

RIG_API cuStreamGetFlags(CUstream handle, unsigned* flags) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

RIG_API cuStreamGetId(CUstream handle, unsigned long long* id) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  *id = stream->id;
  return CUDA_SUCCESS;
}

RIG_API cuStreamGetCtx(CUstream handle, CUcontext* out) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  *out = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}
RIG_API cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(handle, out);
}

RIG_API cuStreamGetDevice(CUstream handle, CUdevice* device) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

RIG_API cuStreamCopyAttributes(CUstream, CUstream) {
  return CUDA_SUCCESS;
}
RIG_API cuStreamGetAttribute(CUstream, CUstreamAttrID, CUstreamAttrValue* value) {
  *value = {};
  return CUDA_SUCCESS;
}
RIG_API cuStreamSetAttribute(CUstream, CUstreamAttrID, const CUstreamAttrValue*) {
  return CUDA_SUCCESS;
}
RIG_API cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned) {
  return CUDA_SUCCESS;
}

RIG_API cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.host = function;
  work.data = data;
  return submit(stream, std::move(work));
}

RIG_API cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned) {
  Stream* stream = nullptr;
  if (CUresult error = find_stream(handle, &stream)) return error;
  if (!callback) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = unless_captured(stream)) return error;
  Work work;
  work.callback = callback;
  work.data = data;
  return submit(stream, std::move(work));
}
