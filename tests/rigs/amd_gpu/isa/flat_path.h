// The ways of flat, global and scratch instructions to memory.
#ifndef KERNCAP_AMD_GPU_ISA_FLAT_PATH_H
#define KERNCAP_AMD_GPU_ISA_FLAT_PATH_H

#include "access.h"

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
  // Only in mappings that were used before.
  bool find_rows(bool write, Row* found) const;
  u8* around(u32 bytes, bool write, Around& at) const;

 private:
  u64 address(unsigned lane) const {
    if (space == Space::scratch) return low32(same_ + (low_ ? low_[lane] : 0));
    return same_ + (high_ ? join(low_[lane], high_[lane]) : low_[lane]);
  }
  u8* aperture(unsigned lane, u32 bytes, bool write);

  Wave& wave_;
  u64 same_ = 0;  // what all lanes add
  const u32 *low_ = nullptr,
            *high_ = nullptr;  // registers: read as long as the instruction has not written them
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_FLAT_PATH_H
