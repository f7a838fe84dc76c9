// The regions that a launch may reach: from its parameters and its module's globals along every
// aligned word that leads into a live allocation.
#ifndef KERNCAP_COMMON_REACHABLE_MEMORY_H
#define KERNCAP_COMMON_REACHABLE_MEMORY_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/device.h"
#include "common/session_options.h"

namespace kerncap {

struct Region {
  uint64_t base = 0, size = 0;
  RegionKind kind = RegionKind::device;
  int device = 0;
  std::string reason, name;
  std::string shared;  // whose else it is (peers.h)
  int64_t peer = -1;   // the rank that owns it and where that has it, if known (collective.h)
  uint64_t peer_base = 0;
  unsigned module = 0;  // of a global: 0 is the kernel's own
  uint64_t array = 0;   // the driver's handle of an array; `base` is that of our copy of it
  ArrayShape shape;     // of an array
};

struct ReachableMemory {
  std::vector<Region> regions;
  uint64_t included_bytes = 0, left_out_bytes = 0;
  // What of it has to be stored: with more included than `max_size`, chunks of zeros on a device don't count.
  uint64_t stored_bytes = 0;
  std::vector<std::string> left_out;
  std::vector<std::string>
      not_held;  // what the launch needs that no reproducer can hold: there are no regions
  std::vector<std::string> notes;
  std::vector<TextureObject> textures;  // that it may use; the arrays behind them are in no region yet
  std::string refusal;                  // it has a parameter that a reproducer can't hold
  bool unfinished = false;              // it grew past `max_size`, and was not followed further
};

struct ReachableMemoryRequest {
  Conf::Memory mode = Conf::Memory::reachable;
  uint64_t max_size = UINT64_MAX;
  uint32_t chunk_bytes = 0;             // of what is stored; 0: zeros count too
  std::vector<Allocation> allocations;  // all that live, by base
  bool has_owners = false;              // what is exported is imported by a rank that takes part
  std::vector<Allocation> globals;      // of the kernel's module that it may reach
  std::vector<TextureObject> textures;  // all that live: a word that is one's number reaches it
  // The bytes of the parameters that pointers are looked for in; without them, all bytes.
  std::vector<Parameter> roots;
  bool has_roots = false;
  // (base, size, live) of an allocator's blocks inside allocations: a pointer to a live block reaches
  // that block alone; one to any other part of such an allocation reaches it whole.
  std::vector<uint64_t> mirror;
};

// Between enter() and leave(), everything idle. False: `why`, a driver's error.
bool find_reachable_memory(Device& device, const Launch& launch, ReachableMemoryRequest request,
                           ReachableMemory* reachable, std::string* why);

// The largest regions, for a refusal: "parameter 0 at byte 0: 4 GiB; …".
std::string describe_sizes(const std::vector<Region>& regions);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_REACHABLE_MEMORY_H
