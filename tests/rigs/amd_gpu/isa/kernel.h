// What a dispatch packet and a kernel descriptor say: sizes, and the registers that a wave starts with.
#ifndef KERNCAP_AMD_GPU_ISA_KERNEL_H
#define KERNCAP_AMD_GPU_ISA_KERNEL_H

#include <vector>

#include "wave.h"

namespace amd_gpu {

struct Size3 {
  u32 x = 1, y = 1, z = 1;
  u64 product() const { return u64{x} * y * z; }
  bool operator==(const Size3&) const = default;
};

class Kernel {
 public:
  // Throws Stop where there is no sensible descriptor.
  explicit Kernel(const Dispatch& dispatch);

  u32 lds_bytes = 0, private_bytes = 0;
  u32 vector_registers = 256, accumulation_registers = 256, scalar_registers_saved = 0;

  u64 groups_total() const { return groups_.product(); }
  u64 waves_of_group() const { return (group_.product() + lanes - 1) / lanes; }
  // The number of waves of a group; those at the grid's end may be smaller.
  u64 waves_at(const Size3& position) const;
  void start_wave(Wave& wave, const Size3& position, u32 wave_number) const;

  Size3 group_position(u64 number) const;

 private:
  Size3 size_of(const Size3& position) const;
  using Ids = std::array<u32, lanes>;
  Ids ids_of(const Size3& size, u32 wave_number) const;
  void start_scalars(Wave& wave, const Size3& position) const;
  u16 preload(Wave& wave, u16 next) const;

  const Dispatch& dispatch_;
  u64 kernarg_ = 0, entry_ = 0;
  Size3 group_, grid_, groups_;
  u32 rsrc1_ = 0, rsrc2_ = 0;
  u16 properties_ = 0, preload_ = 0;
  std::vector<Ids> ids_;  // of the waves of a whole group
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_KERNEL_H
