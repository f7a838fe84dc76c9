// The KFD topology that ROCr reads from sysfs, as files in a folder of ours.
#ifndef KERNCAP_AMD_GPU_TOPOLOGY_H
#define KERNCAP_AMD_GPU_TOPOLOGY_H

#include <cstdint>
#include <string>

namespace amd_gpu {

struct Driver;

struct Chip {
  unsigned gfx_version;  // 9.4.2 is 90402
  unsigned device_id, family, simds, arrays, cus_per_array, firmware, debug_properties;
  const char* name;
};

const Chip& chip_of(const Driver& state);

// What both the topology and a debugger are given.
constexpr unsigned amd_vendor = 0x1002, waves_per_simd = 8;
constexpr uint64_t gpuvm_base = 0x200000, gpuvm_limit = (1ULL << 47) - 1;
constexpr unsigned location_of(unsigned ordinal) {
  return 0x8600 + (ordinal << 8);
}
uint64_t capability();

// Writes the folder, or finds it as an earlier process wrote it. Its name follows from its contents, so that
// nothing has to be removed at the end and no two processes are in each other's way.
std::string write_topology(const Driver& state);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_TOPOLOGY_H
