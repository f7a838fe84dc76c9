#include "common/peers.h"

#include <cstring>

#include "common/mapped_file.h"
#include "common/text.h"

namespace kerncap::peers {
namespace {

constexpr size_t most_named = 16;
constexpr const char* communicator = "ncclDevComm";

// The file behind a shared mapping of the host; empty for a private one, for one of a device, and for one
// that the system made for memory without a file.
std::string shared_file_at(uint64_t address) {
  MappedFile found = mapped_file(address);
  bool is_device = found.path.compare(0, 5, "/dev/") == 0 && found.path.compare(0, 9, "/dev/shm/") != 0;
  return is_device || !found.shared ? std::string() : found.path;
}

}  // namespace

// Source: src/device/generate.py and src/device/symmetric of NCCL 2.19 to 2.28; RCCL keeps the names.
const char* library_of(const Kernel& kernel) {
  std::string name = without_parameters(kernel.demangled);
  if (name.compare(0, 5, "void ") == 0) name.erase(0, 5);
  for (const char* start : {"ncclDevKernel", "ncclKernel", "ncclSymDevKernel", "ncclSymkDevKernel"})
    if (name.compare(0, std::strlen(start), start) == 0) return "NCCL";
  // A kernel that uses NCCL's device API (2.28 and newer) takes its communicator.
  if (kernel.demangled.find(communicator, name.size()) != std::string::npos) return "NCCL";
  return nullptr;
}

int other_device(const Launch& launch, const MemoryMap& map) {
  for (size_t at = 0; at + 8 <= launch.parameters.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, &launch.parameters[at], 8);
    Allocation found;
    if (word != 0 && map.find(word, &found) && found.kind == RegionKind::device &&
        found.shared != Shared::imported && found.shared != Shared::multicast &&
        found.device != launch.device)
      return found.device;
  }
  return -1;
}

std::string sharing(const Allocation& allocation) {
  if (allocation.shared == Shared::multicast)
    return std::string("memory of several devices at one address (") + allocation.how + ")";
  if (allocation.shared == Shared::imported) {
    std::string where = allocation.kind == RegionKind::host ? " on the host"
                        : allocation.owner >= 0             ? " on device " + std::to_string(allocation.owner)
                                                            : "";
    return "another process's memory" + where + " (" + allocation.how + ")";
  }
  if (allocation.kind != RegionKind::host || std::strncmp(allocation.how, "cuMemHostRegister", 17) != 0)
    return {};
  std::string file = shared_file_at(allocation.base);
  return file.empty() ? file : "the shared file " + file + " (" + allocation.how + ")";
}

std::vector<std::string> needs(const char* library, const std::vector<Allocation>& allocations) {
  std::vector<std::string> all = {
      std::string(library) + "'s communicator with its channels, rings and threads",
      "the other ranks, which send and receive while it runs"};
  size_t more = 0;
  for (const Allocation& allocation : allocations) {
    std::string whose = sharing(allocation);
    if (whose.empty()) continue;
    if (all.size() < most_named)
      all.push_back(size_text(allocation.size) + " at " + address_text(allocation.base) + ": " + whose);
    else
      ++more;
  }
  if (more != 0) all.push_back(std::to_string(more) + " more ranges of shared memory");
  return all;
}

}  // namespace kerncap::peers
