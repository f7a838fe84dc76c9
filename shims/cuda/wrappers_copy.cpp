// Copies, fills and prefetches: they wait while the gate is closed, and are noted while a range is captured.
//
// A blocking copy keeps its thread inside; who closes the gate waits for it with a deadline.
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/interpose.h"
#include "cuda/last_stream.h"

namespace kerncap::cuda {
namespace {

constexpr bool has(std::string_view symbol, std::string_view part) noexcept {
  return symbol.find(part) != std::string_view::npos;
}

// On the default stream, with all before it. The host has waited for a blocking copy to its memory; it may
// have for any other with its memory, and for one whose ends the name doesn't tell.
void note_copy(std::string_view symbol, OfStream of) noexcept {
  using stream_order::Call;
  const bool per_thread = is_per_thread(symbol);
  const bool to_host = !of.has_one && (has(symbol, "DtoH") || has(symbol, "AtoH"));
  const bool on_device = has(symbol, "Memset") || has(symbol, "DtoD") || has(symbol, "Prefetch");
  stream_order::note(on_device || to_host ? Call::work : Call::unknown, of.stream, per_thread);
  if (to_host) stream_order::note(Call::synchronize, of.stream, per_thread);
}

}  // namespace

#define KERNCAP_HOOK(symbol, result, parameters, arguments)
#define KERNCAP_GATED(symbol, parameters, arguments)                                       \
  CUresult wrap::symbol parameters noexcept {                                              \
    gate::Pass pass;                                                                       \
    CUresult result = driver()->symbol arguments;                                          \
    if (stream_order::recording.load(std::memory_order_relaxed) && result == CUDA_SUCCESS) \
      note_copy(#symbol, last_stream arguments);                                           \
    return result;                                                                         \
  }
#include "cuda/hooks.def"

}  // namespace kerncap::cuda
