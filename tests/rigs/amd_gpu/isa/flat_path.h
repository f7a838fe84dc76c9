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

  FlatPath(Wave& wave, const Instruction& in, unsigned first) : wave_(wave) {
    const Operand& varying = in.operand(first);
    const Operand* base = scalar_base(in, first);
    same_ = static_cast<u64>(i64{in.offset});
    wave.reach.refresh();
    if (varying.is_vector()) low_ = wave.vector[varying.index];
    if (space == Space::scratch)
      same_ += base ? wave.get32(*base) : 0;
    else if (base)
      same_ += wave.get64(*base);
    else
      high_ = wave.vector[varying.index + 1];
  }

  void read(unsigned lane, void* to, u32 bytes);
  void write(unsigned lane, const void* from, u32 bytes);
  u8* word(unsigned lane, u32 bytes);
  // Only in a mapping that was used before.
  bool find_near(bool write, Near& found) const {
    if (space == Space::scratch || wave_.exec() != ~u64{0} || !are_near(low_, write, found)) return false;
    Sixteen<u32> other = {};
    for (unsigned l = 0; high_ && l < lanes; l += sixteen) other |= sixteen_at(high_ + l) ^ high_[l];
    if (differ(other, Sixteen<u32>{})) return false;
    const Mapping* mapping = wave_.reach.used_before(address(0), window_bytes, write);
    if (!mapping) return false;
    // Row by row: from an array of addresses the host would wait until all are stored.
    for (unsigned r = 0; r < rows; r++) {
      const u64 first = address(r * sixteen);
      if (low_[r * sixteen] > ~u32{0} - window_bytes || !mapping->holds(first, window_bytes)) return false;
      found.at[r] = mapping->host + (first - mapping->device_va);
    }
    return true;
  }
  u8* around(u32 bytes, bool write, Around& at) const;

 private:
  // In stores and atomics the scalar base stands behind the data.
  static const Operand* scalar_base(const Instruction& in, unsigned first) {
    if (space == Space::flat || in.operand_count < first + 2) return nullptr;
    const Operand& last = in.operand(in.operand_count - 1u);
    return last.is_scalar() ? &last : nullptr;
  }
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
