// What of a launch is not this process's alone: other ranks' memory, and libraries whose kernels work only
// together with other ranks'.
#ifndef KERNCAP_COMMON_PEERS_H
#define KERNCAP_COMMON_PEERS_H

#include <string>
#include <vector>

#include "common/launch.h"
#include "common/memory_map.h"

namespace kerncap::peers {

// The library whose collective a kernel is, by its name, or whose communicator it takes: "NCCL". Null: none
// that is known.
const char* library_of(const Kernel& kernel);

// Another device of this process's whose memory a parameter leads into; -1: none.
int other_device(const Launch& launch, const MemoryMap& map);

// Whose else the memory is: "another process's memory on device 1 (cuMemMap)"; empty: nobody's.
std::string sharing(const Allocation& allocation);

// What a launch of such a library needs that no reproducer can hold, with all that this process shares.
std::vector<std::string> needs(const char* library, const std::vector<Allocation>& allocations);

}  // namespace kerncap::peers

#endif  // KERNCAP_COMMON_PEERS_H
