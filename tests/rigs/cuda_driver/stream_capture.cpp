// Stream capture: work that becomes nodes instead of running.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "memory.h"

namespace rig {

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local std::vector<CUgraphNode>* tail_of_thread = nullptr;  // what cuStreamGetCaptureInfo points to

// Whether a capture forbids this thread an unsafe call.
bool forbids(const CaptureState& capture) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  if (capture.thread == current_tid()) return true;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult begin(CUstream handle, Graph* graph, std::vector<GraphNode*> tail, CUstreamCaptureMode mode) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<CaptureState>();
  capture->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  capture->mode = mode;
  capture->id = state().next_id++;
  capture->own_graph = graph == nullptr;
  capture->graph = graph ? graph : new Graph;
  capture->origin = stream;
  capture->thread = current_tid();
  capture->members.insert(stream);
  stream->capture = capture;
  stream->capture_tail = std::move(tail);
  state().capture_states.insert(capture.get());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult unless_capturing() {
  std::lock_guard<std::mutex> lock(state().mutex);
  bool forbidden = false;
  for (CaptureState* capture : state().capture_states) {
    if (!forbids(*capture)) continue;
    capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_work(Stream* stream, const Work& work) {
  CaptureState& capture = *stream->capture;
  if (capture.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto* node = new GraphNode;
  node->graph = capture.graph;
  node->work = work;
  node->after = stream->capture_tail;
  capture.graph->nodes.push_back(node);
  stream->capture_tail = {node};
  return CUDA_SUCCESS;
}

}  // namespace rig

using namespace rig;

RIG_API cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, nullptr, {}, mode);
}

RIG_API cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode* after,
                                    const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
  auto* graph = as<Graph>(handle, Magic::graph);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> tail;
  for (size_t i = 0; i < count; ++i) tail.push_back(as<GraphNode>(after[i], Magic::node));
  return begin(stream, graph, tail, mode);
}

RIG_API cuStreamEndCapture(CUstream handle, CUgraph* out) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  std::shared_ptr<CaptureState> capture = stream->capture;
  if (out) *out = nullptr;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != current_tid())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  // A stream that joined must have been joined again: its last node has to come before the origin's.
  bool unjoined = false;
  for (Stream* member : capture->members) {
    for (GraphNode* node : member->capture_tail) {
      std::vector<GraphNode*> reach = stream->capture_tail;
      for (size_t i = 0; i < reach.size(); ++i)
        for (GraphNode* before : reach[i]->after)
          if (std::find(reach.begin(), reach.end(), before) == reach.end()) reach.push_back(before);
      unjoined = unjoined || std::find(reach.begin(), reach.end(), node) == reach.end();
    }
  }
  for (Stream* member : capture->members) {
    member->capture = nullptr;
    if (member != stream) member->capture_tail.clear();
  }
  stream->capture_tail.clear();
  state().capture_states.erase(capture.get());
  if (capture->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (unjoined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (out) *out = reinterpret_cast<CUgraph>(capture->graph);
  return CUDA_SUCCESS;
}

namespace {

CUresult info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** tail, size_t* count) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (stream->legacy)
    for (Stream* other : stream->context->streams)
      if (other->capture && other->blocking()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream->capture ? stream->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
  if (!stream->capture) return CUDA_SUCCESS;
  if (id) *id = stream->capture->id;
  if (graph) *graph = reinterpret_cast<CUgraph>(stream->capture->graph);
  if (!tail_of_thread) tail_of_thread = new std::vector<CUgraphNode>;
  std::vector<CUgraphNode>& tail_out = *tail_of_thread;
  tail_out.clear();
  for (GraphNode* node : stream->capture_tail) tail_out.push_back(reinterpret_cast<CUgraphNode>(node));
  if (tail) *tail = tail_out.data();
  if (count) *count = tail_out.size();
  return CUDA_SUCCESS;
}

}  // namespace

RIG_API cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return info(stream, status, nullptr, nullptr, nullptr, nullptr);
}
RIG_API cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return info(stream, status, id, nullptr, nullptr, nullptr);
}
RIG_API cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                  CUgraph* graph, const CUgraphNode** tail, size_t* count) {
  return info(stream, status, id, graph, tail, count);
}
RIG_API cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                  CUgraph* graph, const CUgraphNode** tail, const CUgraphEdgeData** edges,
                                  size_t* count) {
  if (edges) *edges = nullptr;
  return info(stream, status, id, graph, tail, count);
}

RIG_API cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData*,
                                             size_t count, unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags & CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->capture_tail.clear();
  for (size_t i = 0; i < count; ++i) stream->capture_tail.push_back(as<GraphNode>(nodes[i], Magic::node));
  return CUDA_SUCCESS;
}
RIG_API cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}

RIG_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (CUresult error = enter_without_context()) return error;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}
