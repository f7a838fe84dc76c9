// The ways of flat, global and scratch instructions to memory.
#ifndef KERNCAP_AMD_GPU_ISA_FLAT_PATH_H
#define KERNCAP_AMD_GPU_ISA_FLAT_PATH_H

#include "lanes.h"

namespace amd_gpu {

enum class Space { flat, global, scratch };

// Operands of an address: a vector register (64 bits, or 32 as an offset to a scalar base), then a scalar
// base or "off". Flat instructions have the first alone. In scratch both are 32-bit offsets and may be "off".
template <Space space>
class FlatPath {
 public:
  static constexpr unsigned load_address = 1, store_address = 0, store_data = 1;

  FlatPath(Wave& wave, const Instruction& in, unsigned first);

  void read(unsigned lane, void* to, u32 bytes);
  void write(unsigned lane, const void* from, u32 bytes);
  u8* word(unsigned lane, u32 bytes);
  // Only for all 64 lanes, side by side, in one writable mapping (reads of read-only memory go the other
  // way).
  u8* span(u32 bytes);
  // Only for all 64 lanes within 2 GiB of one mapping: where lane l reads is `from[l]` bytes behind this.
  const u8* around(u32 bytes, Lanes<u32>& from) const;

 private:
  u8* aperture(unsigned lane, u32 bytes, bool write);

  Wave& wave_;
  Lanes<u64> address_;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_FLAT_PATH_H
