// Every range of device address space that the target holds: what a pointer can lead into.
#ifndef KERNCAP_COMMON_MEMORY_MAP_H
#define KERNCAP_COMMON_MEMORY_MAP_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerncap {

enum class RegionKind : uint8_t { device, managed, host, global, array };

// Whose else memory is: another process's that was imported here, this process's of which it made a handle
// for others, or several devices' at one address, where a plain load has no answer.
enum class Shared : uint8_t { no, imported, exported, multicast };

struct Allocation {
  uint64_t base = 0, size = 0;
  RegionKind kind = RegionKind::device;
  int device = 0;                // -1 for host memory; of imported memory, one that can read it
  const char* how = "";          // the call that made it, a literal: "cuMemAlloc_v2"
  std::string name;              // of a module global
  const void* module = nullptr;  // of a module global: its Module
  Shared shared = Shared::no;
  int owner = -1;       // the device that imported memory is on, if that is known
  uint64_t handle = 0;  // of the physical memory that was mapped
  int64_t peer = -1;    // the rank whose memory was imported (collective.h), and where that has it
  uint64_t peer_base = 0;
  uint64_t serial = 0;  // grows with every addition: two lives of one address differ
};

// Thread safe; its lock is never held across a driver call. No function throws.
class MemoryMap {
 public:
  // Replaces whatever overlaps: the driver gave the address anew, so a free was missed.
  void add(const Allocation& allocation) noexcept;
  // The allocation that begins at `base` is gone. False: it was not known.
  bool remove(uint64_t base) noexcept;
  // Every part of [base, base + size) is gone (cuMemUnmap may take a part of what was mapped).
  void remove_range(uint64_t base, uint64_t size) noexcept;
  // A capture has chosen its memory, and reads none that is added from now on, until thaw().
  void freeze() noexcept;
  void thaw() noexcept;
  // As remove(), of what was added since freeze(); false otherwise.
  bool remove_added_since(uint64_t base, Allocation* removed) noexcept;
  void remove_module(const void* module) noexcept;
  void clear_device(int device) noexcept;  // cuDevicePrimaryCtxReset, cuCtxDestroy
  bool find(uint64_t address, Allocation* found) const noexcept;
  // A handle for other processes was made of the allocation at `base`, or of those that are mapped from
  // `handle`.
  void exported(uint64_t base, uint64_t handle) noexcept;
  // All of them, by base.
  std::vector<Allocation> snapshot() const noexcept;

  // In the child: empty. A device's addresses don't survive a fork.
  static void reset_after_fork() noexcept;

  static MemoryMap& instance() noexcept;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_MEMORY_MAP_H
