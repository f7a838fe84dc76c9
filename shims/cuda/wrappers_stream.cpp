// Streams, contexts and stream captures.
#include <atomic>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/interpose.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

CUresult stream_made(CUresult result, const CUstream* stream) noexcept {
  if (result == CUDA_SUCCESS && stream != nullptr) note_stream(*stream);
  return result;
}

// Waits at the gate: a capture of a stream that began while a snapshot is made would be broken by it.
template <typename Call>
CUresult begin_capture(CUstream stream, bool per_thread, Call&& call) noexcept {
  gate::Pass pass;
  begin_stream_capture(stream, per_thread);
  CUresult result = call();
  if (result != CUDA_SUCCESS) abandon_stream_capture(stream, per_thread);
  return result;
}

CUresult capture_ended(CUresult result, CUstream stream, bool per_thread) noexcept {
  end_stream_capture(stream, per_thread);
  return result;
}

CUresult context_made(CUresult result, const CUcontext* context, CUdevice device) noexcept {
  if (result == CUDA_SUCCESS && context != nullptr) note_context(*context, device);
  return result;
}

// The memory of a device goes with its last context; with others there the map can't tell whose is whose,
// and what is stale in it shows when it is to be read.
void drop_context(CUcontext context) noexcept {
  int device = device_of(context);
  forget_context(context);
  if (device < 0) return;
  for (const ContextEntry& entry : contexts())
    if (entry.device == device) return;
  forget_device(device);
}

template <typename Call>
CUresult destroy_context(CUcontext context, Call&& call) noexcept {
  await_stopped_graphs();
  gate::Pass pass;
  drop_context(context);
  return call();
}

// By device number; more devices than this no machine has.
std::atomic<CUcontext> primaries[256];

CUcontext primary_of(CUdevice device) noexcept {
  return device >= 0 && device < 256 ? primaries[device].load(std::memory_order_acquire) : nullptr;
}

bool is_primary_active(CUdevice device) noexcept {
  gate::Own own;
  unsigned int flags = 0;
  int active = 1;
  const Driver* real = driver();
  if (real->cuDevicePrimaryCtxGetState != nullptr) real->cuDevicePrimaryCtxGetState(device, &flags, &active);
  return active != 0;
}

// The context ends only with its last user.
template <typename Call>
CUresult release_primary(CUdevice device, Call&& call) noexcept {
  await_stopped_graphs();
  gate::Pass pass;
  CUcontext context = primary_of(device);
  CUresult result = call();
  if (result == CUDA_SUCCESS && context != nullptr && !is_primary_active(device)) drop_context(context);
  return result;
}

template <typename Call>
CUresult reset_primary(CUdevice device, Call&& call) noexcept {
  await_stopped_graphs();
  gate::Pass pass;
  CUcontext context = primary_of(device);
  if (context != nullptr) drop_context(context);
  return call();
}

}  // namespace

CUresult wrap::cuStreamCreate(CUstream* phStream, unsigned int Flags) noexcept {
  return stream_made(driver()->cuStreamCreate(phStream, Flags), phStream);
}

CUresult wrap::cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) noexcept {
  return stream_made(driver()->cuStreamCreateWithPriority(phStream, flags, priority), phStream);
}

CUresult wrap::cuStreamDestroy(CUstream hStream) noexcept {
  gate::Pass pass;
  forget_stream(hStream);
  return driver()->cuStreamDestroy(hStream);
}

CUresult wrap::cuStreamDestroy_v2(CUstream hStream) noexcept {
  gate::Pass pass;
  forget_stream(hStream);
  return driver()->cuStreamDestroy_v2(hStream);
}

CUresult wrap::cuStreamBeginCapture(CUstream hStream) noexcept {
  return begin_capture(hStream, false, [&] { return driver()->cuStreamBeginCapture(hStream); });
}

CUresult wrap::cuStreamBeginCapture_ptsz(CUstream hStream) noexcept {
  return begin_capture(hStream, true, [&] { return driver()->cuStreamBeginCapture_ptsz(hStream); });
}

CUresult wrap::cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) noexcept {
  return begin_capture(hStream, false, [&] { return driver()->cuStreamBeginCapture_v2(hStream, mode); });
}

CUresult wrap::cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) noexcept {
  return begin_capture(hStream, true, [&] { return driver()->cuStreamBeginCapture_v2_ptsz(hStream, mode); });
}

CUresult wrap::cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) noexcept {
  return capture_ended(driver()->cuStreamEndCapture(hStream, phGraph), hStream, false);
}

CUresult wrap::cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) noexcept {
  return capture_ended(driver()->cuStreamEndCapture_ptsz(hStream, phGraph), hStream, true);
}

#if CUDA_VERSION >= 12030
CUresult wrap::cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                           const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                           CUstreamCaptureMode mode) noexcept {
  return begin_capture(hStream, false, [&] {
    return driver()->cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData,
                                                 numDependencies, mode);
  });
}

CUresult wrap::cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                                const CUgraphNode* dependencies,
                                                const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                CUstreamCaptureMode mode) noexcept {
  return begin_capture(hStream, true, [&] {
    return driver()->cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData,
                                                      numDependencies, mode);
  });
}
#endif

#if CUDA_VERSION >= 13030
CUresult wrap::cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                             CUgraphRecaptureCallback callbackFunc, void* userData) noexcept {
  return begin_capture(hStream, false, [&] {
    return driver()->cuStreamBeginRecaptureToGraph(hStream, mode, hGraph, callbackFunc, userData);
  });
}

CUresult wrap::cuStreamBeginRecaptureToGraph_ptsz(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                                  CUgraphRecaptureCallback callbackFunc,
                                                  void* userData) noexcept {
  return begin_capture(hStream, true, [&] {
    return driver()->cuStreamBeginRecaptureToGraph_ptsz(hStream, mode, hGraph, callbackFunc, userData);
  });
}
#endif

#if CUDA_VERSION >= 13010
CUresult wrap::cuStreamBeginCaptureToCig(CUstream hStream,
                                         CUstreamCigCaptureParams* streamCigCaptureParams) noexcept {
  return begin_capture(hStream, false,
                       [&] { return driver()->cuStreamBeginCaptureToCig(hStream, streamCigCaptureParams); });
}

CUresult wrap::cuStreamBeginCaptureToCig_ptsz(CUstream hStream,
                                              CUstreamCigCaptureParams* streamCigCaptureParams) noexcept {
  return begin_capture(hStream, true, [&] {
    return driver()->cuStreamBeginCaptureToCig_ptsz(hStream, streamCigCaptureParams);
  });
}
#endif

CUresult wrap::cuStreamEndCaptureToCig(CUstream hStream) noexcept {
  return capture_ended(driver()->cuStreamEndCaptureToCig(hStream), hStream, false);
}

CUresult wrap::cuStreamEndCaptureToCig_ptsz(CUstream hStream) noexcept {
  return capture_ended(driver()->cuStreamEndCaptureToCig_ptsz(hStream), hStream, true);
}

CUresult wrap::cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) noexcept {
  return context_made(driver()->cuCtxCreate(pctx, flags, dev), pctx, dev);
}

CUresult wrap::cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) noexcept {
  return context_made(driver()->cuCtxCreate_v2(pctx, flags, dev), pctx, dev);
}

CUresult wrap::cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                              unsigned int flags, CUdevice dev) noexcept {
  return context_made(driver()->cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev), pctx, dev);
}

#if CUDA_VERSION >= 12050
CUresult wrap::cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                              CUdevice dev) noexcept {
  return context_made(driver()->cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev), pctx, dev);
}
#endif

CUresult wrap::cuCtxDestroy(CUcontext ctx) noexcept {
  return destroy_context(ctx, [&] { return driver()->cuCtxDestroy(ctx); });
}

CUresult wrap::cuCtxDestroy_v2(CUcontext ctx) noexcept {
  return destroy_context(ctx, [&] { return driver()->cuCtxDestroy_v2(ctx); });
}

CUresult wrap::cuCtxSetCurrent(CUcontext ctx) noexcept {
  CUresult result = driver()->cuCtxSetCurrent(ctx);
  if (result == CUDA_SUCCESS && ctx != nullptr) note_current_context(ctx);
  return result;
}

CUresult wrap::cuCtxPushCurrent_v2(CUcontext ctx) noexcept {
  CUresult result = driver()->cuCtxPushCurrent_v2(ctx);
  if (result == CUDA_SUCCESS && ctx != nullptr) note_current_context(ctx);
  return result;
}

CUresult wrap::cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) noexcept {
  CUresult result = context_made(driver()->cuDevicePrimaryCtxRetain(pctx, dev), pctx, dev);
  if (result == CUDA_SUCCESS && pctx != nullptr && dev >= 0 && dev < 256)
    primaries[dev].store(*pctx, std::memory_order_release);
  return result;
}

CUresult wrap::cuDevicePrimaryCtxRelease(CUdevice dev) noexcept {
  return release_primary(dev, [&] { return driver()->cuDevicePrimaryCtxRelease(dev); });
}

CUresult wrap::cuDevicePrimaryCtxRelease_v2(CUdevice dev) noexcept {
  return release_primary(dev, [&] { return driver()->cuDevicePrimaryCtxRelease_v2(dev); });
}

CUresult wrap::cuDevicePrimaryCtxReset(CUdevice dev) noexcept {
  return reset_primary(dev, [&] { return driver()->cuDevicePrimaryCtxReset(dev); });
}

CUresult wrap::cuDevicePrimaryCtxReset_v2(CUdevice dev) noexcept {
  return reset_primary(dev, [&] { return driver()->cuDevicePrimaryCtxReset_v2(dev); });
}

#if CUDA_VERSION >= 12040
CUresult wrap::cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags,
                                      int priority) noexcept {
  return stream_made(driver()->cuGreenCtxStreamCreate(phStream, greenCtx, flags, priority), phStream);
}
#endif

}  // namespace kerncap::cuda
