// The one contract between the two sides of the emulated GPU. driver/ has what the kernel driver and the
// packet processor do; isa/ runs the instructions of one dispatch. Neither includes a header of the other,
// and everything here is inline, so that each side links alone (tests/native/amd_gpu has isa/ without
// driver/).
//
//   driver/: maps memory into a PageTable, takes packets from queues, calls run_dispatch() on the queue's
//            thread, turns a Fault into what ROCr would see.
//   isa/:    run_dispatch(), nothing else. Keeps no state between dispatches but caches, takes its memory
//   only
//            from Dispatch::memory, never writes to stderr but through log(), never throws out.
#ifndef KERNCAP_AMD_GPU_GPU_H
#define KERNCAP_AMD_GPU_GPU_H

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace amd_gpu {

// --- what is emulated ------------------------------------------------------------------------------------

// All have wavefronts of 64 and packed work-item ids. In the order in which they came.
enum class Target { gfx90a, gfx942, gfx950 };
constexpr Target targets[] = {Target::gfx90a, Target::gfx942, Target::gfx950};

constexpr const char* name(Target target) {
  constexpr const char* names[] = {"gfx90a", "gfx942", "gfx950"};
  return names[static_cast<unsigned>(target)];
}

// LDS that one workgroup can have.
constexpr uint32_t lds_bytes_of(Target target) {
  return target == Target::gfx950 ? 160 << 10 : 64 << 10;
}

// Flat addresses with these upper 32 bits are LDS and scratch, not memory; the driver says the same of them
// to ROCr (apertures), so a PageTable never has a mapping there.
constexpr uint64_t shared_aperture = 0x1000000000000, private_aperture = 0x2000000000000;

// The GPU's constant clock, 100 MHz: s_memrealtime, s_memtime and the time stamps of signals.
inline uint64_t gpu_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec)) / 10;
}

// --- memory ----------------------------------------------------------------------------------------------

struct Mapping {
  uint64_t device_va = 0, size_bytes = 0;
  uint8_t* host = nullptr;  // the byte of `device_va`, where this process always reaches it
  bool writable = true;
  uint64_t handle = 0;  // the driver's own

  bool holds(uint64_t va, uint64_t bytes) const {
    return va - device_va < size_bytes && bytes <= size_bytes - (va - device_va);
  }
};

// One GPU's address space in this process. Independent of what the host may touch: memory that is PROT_NONE
// or absent at `device_va` for the host is reached through `host`. Neighbouring mappings may be far apart in
// `host`: an access that crosses a border is two accesses.
class PageTable {
 public:
  bool find(uint64_t va, Mapping& found) const {
    std::shared_lock<std::shared_mutex> guard(mutex_);
    auto next = mappings_.upper_bound(va);
    if (next == mappings_.begin()) return false;
    const Mapping& mapping = std::prev(next)->second;
    if (!mapping.holds(va, 1)) return false;
    found = mapping;
    return true;
  }

  // Null where [va, va + bytes) is not inside one mapping.
  uint8_t* translate(uint64_t va, uint64_t bytes) const {
    Mapping mapping;
    return find(va, mapping) && mapping.holds(va, bytes) ? mapping.host + (va - mapping.device_va) : nullptr;
  }

  // Changes with every map and unmap: a copy of a Mapping may be kept while it stays the same.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // What was mapped in this range before is gone, as in a page table.
  void map(const Mapping& mapping) {
    std::unique_lock<std::shared_mutex> guard(mutex_);
    cut(mapping.device_va, mapping.size_bytes);
    mappings_[mapping.device_va] = mapping;
    generation_.fetch_add(1, std::memory_order_release);
  }
  void unmap(uint64_t va, uint64_t bytes) {
    std::unique_lock<std::shared_mutex> guard(mutex_);
    cut(va, bytes);
    generation_.fetch_add(1, std::memory_order_release);
  }

 private:
  void cut(uint64_t va, uint64_t bytes) {
    const uint64_t end = va + bytes;
    auto next = mappings_.lower_bound(va);
    if (next != mappings_.begin() && std::prev(next)->second.holds(va, 1)) --next;
    while (next != mappings_.end() && next->first < end) {
      const Mapping old = next->second;
      next = mappings_.erase(next);
      const uint64_t old_end = old.device_va + old.size_bytes;
      if (old.device_va < va) put_part(old, old.device_va, va);
      if (old_end > end) put_part(old, end, old_end);
    }
  }
  void put_part(const Mapping& whole, uint64_t from, uint64_t to) {
    mappings_[from] = {from, to - from, whole.host + (from - whole.device_va), whole.writable, whole.handle};
  }

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Mapping> mappings_;
  std::atomic<uint64_t> generation_{1};
};

// --- one dispatch ----------------------------------------------------------------------------------------

enum class FaultKind {
  none,
  memory,       // no mapping, or a write to a read-only one: `address`, `write`
  aperture,     // outside of this dispatch's LDS or scratch: `address`, `write`
  illegal,      // no instruction of this target
  unsupported,  // an instruction (or a mode) that the emulator does not know: `text` names it
  trap,         // s_trap: what __builtin_trap and a failed assert end in
  code_object,  // no code at kernel_object, or a kernel descriptor that makes no sense
  cancelled,    // Dispatch::cancelled became true
};

// A wavefront that was on the GPU when its dispatch stopped, as the hardware would save it.
struct WaveState {
  uint32_t group[3] = {};            // its workgroup's place in the grid
  uint32_t wave_in_group = 0;        // from 0
  bool first = false, last = false;  // of the waves of its workgroup that had not ended
  FaultKind kind = FaultKind::none;  // what it stopped with; none: it was running
  uint32_t trap_id = 0;              // of a trap
  // Where it goes on: behind an instruction that could not reach memory, and behind a trap; at an illegal
  // one.
  uint64_t pc = 0, exec = 0, vcc = 0, flat_scratch = 0;
  uint32_t m0 = 0, mode = 0;
  bool scc = false, at_barrier = false;
  // As many as it has, and 64 lanes of each vector register. `lds` is its workgroup's, and only the first's.
  std::vector<uint32_t> scalars, vectors, accumulators;
  std::vector<uint8_t> lds;
};

struct Fault {
  FaultKind kind = FaultKind::none;
  uint64_t pc = 0;       // of the instruction
  uint64_t address = 0;  // that it could not reach
  bool write = false;
  std::string text;                // one line for people, with no line end
  std::vector<WaveState> waves{};  // workgroup by workgroup; for FaultKind::cancelled too
};

struct Dispatch {
  Target target = Target::gfx90a;
  const PageTable* memory = nullptr;
  // The 64 bytes of hsa_kernel_dispatch_packet_t, whose sizes the driver has checked (no zero, no workgroup
  // of more than 1024, LDS of at most lds_bytes_of()); its own address and that of the amd_queue_t, as a
  // kernel sees them.
  const void* packet = nullptr;
  uint64_t packet_va = 0, queue_va = 0;
  // Looked at often enough that a kernel which never ends can be stopped (at least at each backward branch).
  const std::atomic<bool>* cancelled = nullptr;
  // s_sendmsg(MSG_INTERRUPT): wakes who waits for the event (device printf, hostcalls). May be null.
  void (*interrupt)(uint32_t event_id) = nullptr;
  // Most threads that run workgroups, at least 1. With more the order of atomics differs from run to run.
  unsigned threads = 1;
};

// Runs a dispatch from its first workgroup to its last. Called by several threads at once, one per queue: a
// kernel may wait for another queue's or for the host, so no lock may be held while instructions run, and
// atomics on memory are atomic against the other threads and the host.
Fault run_dispatch(const Dispatch& dispatch);

// --- saying what happens ---------------------------------------------------------------------------------

// AMD_GPU_LOG: 0 what is wrong, 1 queues and dispatches, 2 allocations and copies, 3 ioctls, 4 events and
// packets, 5 every instruction.
inline std::atomic<int> log_level{0};

inline bool logs(int level) {
  return log_level.load(std::memory_order_relaxed) >= level;
}

// A whole line with one write, so that threads do not mix theirs.
[[gnu::format(printf, 2, 3)]] inline void log(int level, const char* format, ...) {
  if (!logs(level)) return;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "[amd-gpu] %s\n", line);
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_GPU_H
