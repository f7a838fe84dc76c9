// Copies and fills: they wait at the gate, and what they leave under way is drained (copies.h).
#include "common/gate.h"
#include "hip/agents.h"
#include "hip/copies.h"
#include "hip/queue_order.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

void forget(Signal signal) noexcept {
  copies::forget(signal);
  queue_order::forget(signal);
}

template <typename Call>
Status started(Signal done, const copies::Copied& copied, Call&& call) noexcept {
  gate::Pass pass;
  copies::begin(done, copied);
  queue_order::forget(done);
  Status status = call();
  if (status != constant::success) copies::abandon(done);
  return status;
}

}  // namespace

Status wrap::hsa_memory_copy(void* to, const void* from, size_t size) noexcept {
  gate::Pass pass;
  return real().hsa_memory_copy(to, from, size);
}

Status wrap::hsa_amd_memory_fill(void* memory, uint32_t value, size_t count) noexcept {
  gate::Pass pass;
  return real().hsa_amd_memory_fill(memory, value, count);
}

Status wrap::hsa_amd_memory_async_copy(void* to, Agent to_agent, const void* from, Agent from_agent,
                                       size_t size, uint32_t count, const Signal* after,
                                       Signal done) noexcept {
  return started(done, {ordinal_of(to_agent), ordinal_of(from_agent), size}, [&] {
    return real().hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, count, after, done);
  });
}

Status wrap::hsa_amd_memory_async_copy_on_engine(void* to, Agent to_agent, const void* from, Agent from_agent,
                                                 size_t size, uint32_t count, const Signal* after,
                                                 Signal done, int engine, bool force) noexcept {
  return started(done, {ordinal_of(to_agent), ordinal_of(from_agent), size}, [&] {
    return real().hsa_amd_memory_async_copy_on_engine(to, to_agent, from, from_agent, size, count, after,
                                                      done, engine, force);
  });
}

Status wrap::hsa_amd_memory_async_copy_rect(const void* to, const void* to_offset, const void* from,
                                            const void* from_offset, const void* range, Agent agent,
                                            int direction, uint32_t count, const Signal* after,
                                            Signal done) noexcept {
  return started(done, {}, [&] {
    return real().hsa_amd_memory_async_copy_rect(to, to_offset, from, from_offset, range, agent, direction,
                                                 count, after, done);
  });
}

Status wrap::hsa_amd_svm_prefetch_async(void* address, size_t size, Agent agent, uint32_t count,
                                        const Signal* after, Signal done) noexcept {
  return started(done, {},
                 [&] { return real().hsa_amd_svm_prefetch_async(address, size, agent, count, after, done); });
}

Status wrap::hsa_signal_destroy(Signal signal) noexcept {
  forget(signal);
  return real().hsa_signal_destroy(signal);
}

void wrap::hsa_signal_store_relaxed(Signal signal, SignalValue value) noexcept {
  forget(signal);
  real().hsa_signal_store_relaxed(signal, value);
}

void wrap::hsa_signal_store_screlease(Signal signal, SignalValue value) noexcept {
  forget(signal);
  real().hsa_signal_store_screlease(signal, value);
}

void wrap::hsa_signal_silent_store_relaxed(Signal signal, SignalValue value) noexcept {
  forget(signal);
  real().hsa_signal_silent_store_relaxed(signal, value);
}

void wrap::hsa_signal_silent_store_screlease(Signal signal, SignalValue value) noexcept {
  forget(signal);
  real().hsa_signal_silent_store_screlease(signal, value);
}

}  // namespace kerncap::hip
