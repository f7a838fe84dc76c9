#include "flat_path.h"

namespace amd_gpu {
namespace {

// In stores and atomics the scalar base stands behind the data.
const Operand& scalar_base(const Instruction& in, unsigned first, Space space) {
  static const Operand none;
  if (space == Space::flat || in.operand_count < first + 2) return none;
  const Operand& last = in.operand(in.operand_count - 1u);
  return last.is_scalar() ? last : none;
}

template <Space space>
bool in_aperture(u64 va) {
  const u32 upper = high32(va);
  return space == Space::flat && (upper == high32(shared_aperture) || upper == high32(private_aperture));
}

}  // namespace

template <Space space>
FlatPath<space>::FlatPath(Wave& wave, const Instruction& in, unsigned first) : wave_(wave) {
  const Operand& varying = in.operand(first);
  const Operand& base = scalar_base(in, first, space);
  const u64 offset = static_cast<u64>(i64{in.offset});
  wave.reach.refresh();
  if (space == Space::scratch) {
    const u32 same = low32(offset) + (base.is_scalar() ? wave.get32(base) : 0);
    for (unsigned l = 0; l < lanes; l++) {
      address_[l] = low32(u64{same} + (varying.is_vector() ? wave.vector[varying.index][l] : 0));
    }
  } else if (base.is_scalar()) {
    const u64 same = wave.get64(base) + offset;
    for (unsigned l = 0; l < lanes; l++) address_[l] = same + wave.vector[varying.index][l];
  } else {
    const u32 *low = wave.vector[varying.index], *high = wave.vector[varying.index + 1];
    for (unsigned l = 0; l < lanes; l++) address_[l] = join(low[l], high[l]) + offset;
  }
}

template <Space space>
void FlatPath<space>::read(unsigned lane, void* to, u32 bytes) {
  if (const u8* own = aperture(lane, bytes, false))
    std::memcpy(to, own, bytes);
  else
    wave_.reach.read(address_[lane], to, bytes);
}

template <Space space>
void FlatPath<space>::write(unsigned lane, const void* from, u32 bytes) {
  if (u8* own = aperture(lane, bytes, true))
    std::memcpy(own, from, bytes);
  else
    wave_.reach.write(address_[lane], from, bytes);
}

template <Space space>
u8* FlatPath<space>::word(unsigned lane, u32 bytes) {
  if (u8* own = aperture(lane, bytes, true)) return own;
  u8* found = wave_.reach.inside_one(address_[lane], bytes, true);
  if (!found) throw Stop{FaultKind::memory, "atomic across two mappings", address_[lane], true};
  return found;
}

template <Space space>
u8* FlatPath<space>::span(u32 bytes) {
  if (space == Space::scratch || wave_.exec() != ~u64{0}) return nullptr;
  const u64 start = address_[0];
  u64 differs = 0;
  for (unsigned l = 0; l < lanes; l++) differs |= address_[l] ^ (start + u64{bytes} * l);
  if (differs || in_aperture<space>(start)) return nullptr;
  return wave_.reach.inside_one_if(start, u64{bytes} * lanes);
}

template <Space space>
const u8* FlatPath<space>::around(u32 bytes, Lanes<u32>& from) const {
  if (space == Space::scratch || wave_.exec() != ~u64{0}) return nullptr;
  u64 lowest = address_[0], highest = address_[0];
  for (unsigned l = 0; l < lanes; l++) {
    lowest = address_[l] < lowest ? address_[l] : lowest;
    highest = address_[l] > highest ? address_[l] : highest;
  }
  if (highest > ~u64{0} - bytes || highest - lowest > 0x7fffff00) return nullptr;
  const u8* found = wave_.reach.inside_one_if(lowest, highest - lowest + bytes, false);
  if (found) {
    for (unsigned l = 0; l < lanes; l++) from[l] = low32(address_[l] - lowest);
  }
  return found;
}

template <Space space>
u8* FlatPath<space>::aperture(unsigned lane, u32 bytes, bool write) {
  const u64 va = address_[lane];
  if (space == Space::scratch) return wave_.scratch_at(low32(va), bytes, lane, write);
  if (!in_aperture<space>(va)) return nullptr;
  if (high32(va) == high32(shared_aperture)) return wave_.lds_at(low32(va), bytes, write);
  return wave_.scratch_at(low32(va), bytes, lane, write);
}

template class FlatPath<Space::flat>;
template class FlatPath<Space::global>;
template class FlatPath<Space::scratch>;

}  // namespace amd_gpu
