// The device address space: a range that the host may not touch, and beside it, at a constant
// distance, where the driver and kernels reach the bytes.
#ifndef KERNCAP_RIG_MEMORY_H
#define KERNCAP_RIG_MEMORY_H

#include "state.h"

namespace rig {

// Both below where Linux places libraries and stacks, and inside the ranges that ThreadSanitizer
// and AddressSanitizer leave to programs.
constexpr uint64_t kArena = 0x7e8000000000, kArenaBytes = 0x4000000000;  // 256 GiB
constexpr uint64_t kAlias = 0x550000000000;
constexpr uint64_t kGranule = 2ull << 20;       // of virtual memory management
constexpr uint64_t kHintGranule = 32ull << 20;  // of address hints
constexpr uint64_t kSmall = 1ull << 20;         // below it an allocation shares a slab

enum class Kind { device, managed, host, registered, mapped, pooled, global };

struct Allocation {
  CUdeviceptr base = 0;
  size_t size = 0;
  Kind kind = Kind::device;
  int device = 0;
  Context* context = nullptr;
  unsigned long long id = 0;
  Pool* pool = nullptr;
  unsigned flags = 0;
  bool accessible = true;  // mapped: cuMemSetAccess was called, for any device
  uint64_t devices = 0;    // mapped: those that it was called for, by bit
  bool is_hidden =
      false;  // a graph's or kernels' heap: they and a graph's own copies reach it, no call knows it
  bool freeing = false;    // pooled: a free is enqueued
  void* handle = nullptr;  // mapped: the physical allocation
  bool is_host() const { return kind == Kind::host || kind == Kind::registered; }
};

// Free ranges of an address range; no lock of its own.
class RangeSet {
 public:
  void add(uint64_t base, uint64_t size);
  // Takes exactly this range. False: some of it is not free.
  bool take_at(uint64_t base, uint64_t size);
  // The first free place at or after `from`, else before it. 0: none.
  uint64_t take(uint64_t size, uint64_t alignment, uint64_t from = 0);
  bool whole(uint64_t base, uint64_t size) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;
};

class Memory {
 public:
  static Memory& instance();

  // A range of the arena, bound to nothing. 0: none left.
  uint64_t reserve(uint64_t size, uint64_t alignment, uint64_t hint);
  void release(uint64_t base, uint64_t size);

  // Device memory with garbage in it; enters the live allocations.
  CUresult allocate(Allocation* allocation);
  CUresult free(CUdeviceptr base, Kind kind);
  void free_of(Context* context);

  void enter(const Allocation& allocation);  // host and mapped memory
  // `id`: only that life of the address; 0: any.
  bool leave(CUdeviceptr base, Kind kind, Allocation* was, unsigned long long id = 0);
  bool find(CUdeviceptr address, Allocation* found) const;
  bool is_live(CUdeviceptr address, size_t bytes) const;
  // All live allocations that begin in this range.
  std::vector<Allocation> within(uint64_t base, uint64_t size) const;
  void update(CUdeviceptr base, const std::function<void(Allocation&)>& change);
  // Where the host finds it; null where it is not live or not accessible.
  void* host(CUdeviceptr address, size_t bytes) const;

  bool charge(int device, size_t bytes);  // against the device's size and OOM_AFTER
  void refund(int device, size_t bytes);
  size_t used(int device) const;
  unsigned long long next_id();

 private:
  Memory();
  struct Slab {
    RangeSet free;
    int device = 0;
    Context* context = nullptr;
    bool global = false;
  };
  uint64_t place_small(const Allocation& allocation);
  const Allocation* covering(CUdeviceptr address) const;

  mutable std::mutex mutex_;
  RangeSet arena_;
  uint64_t start_ = 0;
  std::map<uint64_t, Allocation> live_;
  std::map<uint64_t, Slab> slabs_;
  std::map<int, size_t> used_;
  size_t total_charged_ = 0;
  unsigned long long next_id_ = 1;
};

inline void* alias_of(CUdeviceptr address) {
  return reinterpret_cast<void*>(address - kArena + kAlias);
}
inline bool in_arena(CUdeviceptr address) {
  return address >= kArena && address - kArena < kArenaBytes;
}
void map_alias(uint64_t base, uint64_t size);
void unmap_alias(uint64_t base, uint64_t size);
void garbage(void* where, size_t bytes, uint64_t seed);

}  // namespace rig

#endif  // KERNCAP_RIG_MEMORY_H
