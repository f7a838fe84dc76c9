// What the vendor's wrappers call: is this launch wanted, and capture it around the real call.
#ifndef KERNCAP_COMMON_CAPTURE_H
#define KERNCAP_COMMON_CAPTURE_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/arm.h"
#include "common/clock.h"
#include "common/last_launches.h"
#include "common/launch.h"
#include "common/this_thread.h"

namespace kerncap::capture {

// Whether this process is under capture at all (KERNCAP_SESSION names a session that can be
// opened). Decided once; false makes every wrapper a plain call. The first time that it is true an
// empty file `cuda-<pid>` in the session says that the driver was called.
bool armed() noexcept;

// The fast path, inlined into each launch wrapper: counts the launch, and says whether the slow
// path must look at it. Some nanoseconds; no lock, no allocation.
inline bool look(Kernel& kernel) noexcept;

// The ring of last launches; before `look`.
inline void note(const Kernel& kernel, const Dim3& grid, const Dim3& block, void* stream) noexcept {
  last_launches::note(kernel, grid, block, stream);
}

// The slow path: selection (asks the command line about a kernel that is new, see docs/session.md),
// --where, ordinals. True: capture this launch with `run`, on this thread, next.
bool wants(const Launch& launch) noexcept;

// A call into the driver that launches; returns the driver's status. Called exactly once by `run`,
// again only to launch anew for --when differs.
using Call = int (*)(void* context) noexcept;

// The target begins to use the vendor's profiler itself.
void profiler_comes() noexcept;
// The target has allocated: a timeline has the copies before the first launch, too.
void memory_comes() noexcept;

// --list: launches are counted and timed, none is captured.
bool lists_only() noexcept;
// Whether kernels that nobody wants now may be wanted later (`kerncap arm`).
bool may_be_armed() noexcept;

// Capture `launch` around `call(context)`: gate, drain, reachable memory, pre-state, the launch, drain,
// post-state, records. Whatever goes wrong on the way is a record; the launch happens exactly once and its
// status is returned. Must be called with no gate::Pass held.
int run(const Launch& launch, Call call, void* context) noexcept;

// A graph is launched: `known` is its number, once it has one.
GraphTurn graph_launched(int64_t* known) noexcept;
// What may be wanted of this launch: nothing, some kernels, or it is the range that was asked for (--graph),
// until it ends.
enum class GraphWish : uint8_t { nothing, kernels, range };
GraphWish graph_wish(const GraphTurn& turn) noexcept;
void graph_ended(const GraphTurn& turn) noexcept;
// Whether it is to be told which node a launch became that the hook chose (choose_in_graph); and which.
bool asks_for_nodes() noexcept;
void became_node(const Kernel& kernel, const void* node) noexcept;

// For launches in the midst of other work (Launch::stopped), of one context: closes the gate, has all that
// was queued end, and makes ready what waits for an idle device; `stopped` learns of the calling thread.
// False, with the reason: the gate is open.
bool close_for_stops(const std::vector<Launch>& launches, Stopped* stopped, std::string* why) noexcept;

// An empty file of the session, `<kind>-<pid>` (docs/session.md); nothing without a session.
void leave_mark(const char* kind) noexcept;

// A launch that could not be captured, with the reason that the user reads (one sentence).
void refuse(const Kernel* kernel, const char* reason) noexcept;

// Nothing can be captured in this process, with the reason that the user reads; the session is opened for it.
void refuse_all(const std::string& reason) noexcept;

// After any driver call of the target's that may return another launch's error: the first that means
// a lost context writes the last launches down.
inline void after_call(int status) noexcept;

// In the child: everything of shims/common starts afresh. May be called twice.
void reset_after_fork() noexcept;

// --- the Triton hook's side (exported as C functions, see docs/session.md) -------------------------

// The hook selects launches of kernels with this name: ignored unless chosen.
void own(const char* name) noexcept;
// The next launch on this thread of a kernel of this name is to be captured under `token`.
void choose(const char* name, uint64_t token, const char* annotation) noexcept;
// The same for the next launched graph of this process that has a node of this kernel.
void choose_in_graph(const char* name, uint64_t token, const char* annotation) noexcept;
// Types of the chosen launch's parameters ("*fp32,i32,…") if its name does not say them.
void choose_types(uint64_t token, const char* types) noexcept;
// Whether the one launch that was asked for is captured, by the hook's choice or without it.
bool is_disarmed() noexcept;
// A range of launches: see Selection.
long count_launch(bool starts, bool ends, uint64_t occurrence) noexcept;
bool is_range_counted() noexcept;
// With --list: what the hook calls this thread's next launch of a kernel of its own.
void name_config(const char* text) noexcept;
// The calling thread's ranges, outermost first, each ended by a newline; their length, whatever fits. -1:
// nobody tells of ranges in this process.
long ranges_text(char* text, unsigned long size) noexcept;
enum class Fate : int { not_launched = 0, kept = 1, dropped = 2, failed = 3 };
// What became of it; forgets a choice that met no launch.
Fate outcome(uint64_t token, std::string* reason) noexcept;
// Whether a launched graph may be wanted for a node of this kernel.
bool may_want_in_graph(Kernel& kernel) noexcept;

// Of memory of one device, by `count` pairs (address, size), what a trace has of it: digest_digits each. The
// device's context is current, and what writes the memory has ended. False: not all of it can be looked into.
bool digests(int ordinal, const unsigned long long* pairs, long count, char* text) noexcept;

// --- behind the inline functions ------------------------------------------------------------------

extern std::atomic<uint64_t> pass_below;     // ordinals below it are surely not wanted
extern std::atomic<uint64_t> counts_due_ns;  // when COUNTS are to be written, on the coarse clock
extern std::atomic<uint32_t> graph_choices;  // not yet met
extern __thread uint32_t thread_choices;     // of this thread, not yet met
extern __thread uint32_t thread_configs;     // named for a launch that is yet to come
void saw_error(int status) noexcept;
bool read_due_clock() noexcept;
// A watched kernel's launch that is surely not wanted, by its ordinal; it is counted then.
bool passes_over(Kernel& kernel) noexcept;

// Whether COUNTS are due. The clock is read again only after some launches where they come in fast.
inline bool may_be_due() noexcept {
  if (this_thread.until_clock == 0) return read_due_clock();
  --this_thread.until_clock;
  return false;
}

inline bool look(Kernel& kernel) noexcept {
  kernel.launches.add(this_thread.line);
  const Interest interest = kernel.interest.load(std::memory_order_acquire);
  if (__builtin_expect(may_be_due() || arm::has_changed(), 0)) return true;
  if (interest == Interest::ignored) return false;
  if (interest == Interest::owned)
    return thread_choices != 0 || thread_configs != 0 || graph_choices.load(std::memory_order_relaxed) != 0;
  return interest != Interest::watched || !passes_over(kernel);
}

inline void after_call(int status) noexcept {
  if (__builtin_expect(status != 0, 0)) saw_error(status);
}

}  // namespace kerncap::capture

#endif  // KERNCAP_COMMON_CAPTURE_H
