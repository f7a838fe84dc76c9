// What the vendor's wrappers call: is this launch wanted, and capture it around the real call.
#ifndef KERNCAP_COMMON_CAPTURE_H
#define KERNCAP_COMMON_CAPTURE_H

#include <cstdint>

#include "common/launch.h"

namespace kerncap::capture {

// Whether this process is under capture at all (KERNCAP_SESSION names a session that can be
// opened). Decided once; false makes every wrapper a plain call. Starts the session's folder.
bool armed() noexcept;

// The fast path, inlined into each launch wrapper: counts the launch, and says whether the slow
// path must look at it. Under 100 ns; no lock, no allocation.
inline bool look(Kernel& kernel) noexcept;

// The slow path: selection (asks the command line about a kernel that is new, see docs/session.md),
// --where, ordinals. True: capture this launch with `run`.
bool wants(const Launch& launch) noexcept;

// A call into the driver that launches; returns the driver's status. Called exactly once by `run`,
// again only to launch anew for --when differs.
using Call = int (*)(void* context) noexcept;

// Capture `launch` around `call(context)`: gate, drain, closure, pre-state, the launch, drain, post-state,
// records. Whatever goes wrong on the way is a record; the launch happens exactly once and its
// status is returned. Must be called with no gate::Pass held.
int run(const Launch& launch, Call call, void* context) noexcept;

// A launch that could not be captured, with the reason that the user reads (one sentence).
void refuse(const Kernel* kernel, const char* reason) noexcept;

// --- the Triton hook's side (exported as C functions, see docs/session.md) -------------------------

// The next launch on this thread of a kernel of this name is to be captured under `token`.
void choose(const char* name, uint64_t token) noexcept;

extern std::atomic<uint64_t> selection_epoch;  // grows when what is wanted changes: disarmed, armed anew

inline bool look(Kernel& kernel) noexcept {
  kernel.launches.fetch_add(1, std::memory_order_relaxed);
  Interest interest = kernel.interest.load(std::memory_order_acquire);
  return interest != Interest::ignored;
}

}  // namespace kerncap::capture

#endif  // KERNCAP_COMMON_CAPTURE_H
