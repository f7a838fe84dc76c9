// Events and synchronisation: what orders streams, noted while a range is captured.
//
// They never wait at the gate. What a query answers is noted as unknown: a program may go on either way.
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/interpose.h"
#include "cuda/last_stream.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {

using stream_order::Call;
using stream_order::noted;

#define KERNCAP_HOOK(symbol, result, parameters, arguments)
#define KERNCAP_OPAQUE(symbol, parameters, arguments)                                           \
  CUresult wrap::symbol parameters noexcept {                                                   \
    return noted_on(last_stream arguments, Call::unknown, #symbol, driver()->symbol arguments); \
  }
#include "cuda/hooks.def"

CUresult wrap::cuEventRecord(CUevent hEvent, CUstream hStream) noexcept {
  return noted(driver()->cuEventRecord(hEvent, hStream), Call::record, hStream, false, hEvent);
}

CUresult wrap::cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) noexcept {
  return noted(driver()->cuEventRecord_ptsz(hEvent, hStream), Call::record, hStream, true, hEvent);
}

CUresult wrap::cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) noexcept {
  return noted(driver()->cuEventRecordWithFlags(hEvent, hStream, flags), Call::record, hStream, false,
               hEvent);
}

CUresult wrap::cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) noexcept {
  return noted(driver()->cuEventRecordWithFlags_ptsz(hEvent, hStream, flags), Call::record, hStream, true,
               hEvent);
}

CUresult wrap::cuEventDestroy(CUevent hEvent) noexcept {
  return noted(driver()->cuEventDestroy(hEvent), Call::forget, hEvent);
}

CUresult wrap::cuEventDestroy_v2(CUevent hEvent) noexcept {
  return noted(driver()->cuEventDestroy_v2(hEvent), Call::forget, hEvent);
}

CUresult wrap::cuEventSynchronize(CUevent hEvent) noexcept {
  return noted(driver()->cuEventSynchronize(hEvent), Call::synchronize_event, hEvent);
}

CUresult wrap::cuEventQuery(CUevent hEvent) noexcept {
  return noted(driver()->cuEventQuery(hEvent), Call::unknown, CUevent{});
}

CUresult wrap::cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) noexcept {
  return noted(driver()->cuStreamWaitEvent(hStream, hEvent, Flags), Call::wait, hStream, false, hEvent);
}

CUresult wrap::cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) noexcept {
  return noted(driver()->cuStreamWaitEvent_ptsz(hStream, hEvent, Flags), Call::wait, hStream, true, hEvent);
}

CUresult wrap::cuStreamSynchronize(CUstream hStream) noexcept {
  return noted(driver()->cuStreamSynchronize(hStream), Call::synchronize, hStream, false);
}

CUresult wrap::cuStreamSynchronize_ptsz(CUstream hStream) noexcept {
  return noted(driver()->cuStreamSynchronize_ptsz(hStream), Call::synchronize, hStream, true);
}

CUresult wrap::cuStreamQuery(CUstream hStream) noexcept {
  return noted(driver()->cuStreamQuery(hStream), Call::unknown, CUevent{});
}

CUresult wrap::cuStreamQuery_ptsz(CUstream hStream) noexcept {
  return noted(driver()->cuStreamQuery_ptsz(hStream), Call::unknown, CUevent{});
}

CUresult wrap::cuCtxSynchronize() noexcept {
  return noted(driver()->cuCtxSynchronize(), Call::synchronize_all, CUstream{}, false);
}

#if CUDA_VERSION >= 13000
CUresult wrap::cuCtxSynchronize_v2(CUcontext ctx) noexcept {
  CUresult result = driver()->cuCtxSynchronize_v2(ctx);
  if (!stream_order::recording.load(std::memory_order_relaxed)) return result;
  InContext in(ctx);  // null: the current one
  return noted(result, Call::synchronize_all, CUstream{}, false);
}
#endif

}  // namespace kerncap::cuda
