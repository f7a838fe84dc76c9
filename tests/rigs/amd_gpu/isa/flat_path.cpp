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
  same_ = static_cast<u64>(i64{in.offset});
  wave.reach.refresh();
  if (varying.is_vector()) low_ = wave.vector[varying.index];
  if (space == Space::scratch)
    same_ += base.is_scalar() ? wave.get32(base) : 0;
  else if (base.is_scalar())
    same_ += wave.get64(base);
  else
    high_ = wave.vector[varying.index + 1];
}

template <Space space>
void FlatPath<space>::read(unsigned lane, void* to, u32 bytes) {
  if (const u8* own = aperture(lane, bytes, false))
    std::memcpy(to, own, bytes);
  else
    wave_.reach.read(address(lane), to, bytes);
}

template <Space space>
void FlatPath<space>::write(unsigned lane, const void* from, u32 bytes) {
  if (u8* own = aperture(lane, bytes, true))
    std::memcpy(own, from, bytes);
  else
    wave_.reach.write(address(lane), from, bytes);
}

template <Space space>
u8* FlatPath<space>::word(unsigned lane, u32 bytes) {
  if (u8* own = aperture(lane, bytes, true)) return own;
  u8* found = wave_.reach.inside_one(address(lane), bytes, true);
  if (!found) throw Stop{FaultKind::memory, "atomic across two mappings", address(lane), true};
  return found;
}

template <Space space>
bool FlatPath<space>::find_rows(bool write, Row* found) const {
  if (space == Space::scratch || wave_.exec() != ~u64{0}) return false;
  for (unsigned l = 0; l < lanes; l += sixteen) {
    const Lie lie = lie_of(low_ + l, low_[l]);
    if (lie == Lie::apart || (lie == Lie::same && write)) return false;
    if (high_ && differ(sixteen_at(high_ + l), Sixteen<u32>{} + high_[l])) return false;
    const u32 bytes = lie == Lie::same ? 4 : 4 * sixteen;
    if (low_[l] > ~u32{0} - bytes) return false;
    u8* at = wave_.reach.inside_one_if(address(l), bytes, write);
    if (!at) return false;
    *found++ = {at, lie == Lie::same};
  }
  return true;
}

template <Space space>
u8* FlatPath<space>::around(u32 bytes, bool write, Around& at) const {
  if (space == Space::scratch) return nullptr;
  Lanes<u64> each;
  if (high_) {
    for (unsigned l = 0; l < lanes; l++) each[l] = same_ + join(low_[l], high_[l]);
  } else {
    for (unsigned l = 0; l < lanes; l++) each[l] = same_ + low_[l];
  }
  return around_addresses(wave_.reach, each, wave_.exec(), bytes, write, at);
}

template <Space space>
u8* FlatPath<space>::aperture(unsigned lane, u32 bytes, bool write) {
  const u64 va = address(lane);
  if (space == Space::scratch) return wave_.scratch_at(low32(va), bytes, lane, write);
  if (!in_aperture<space>(va)) return nullptr;
  if (high32(va) == high32(shared_aperture)) return wave_.lds_at(low32(va), bytes, write);
  return wave_.scratch_at(low32(va), bytes, lane, write);
}

template class FlatPath<Space::flat>;
template class FlatPath<Space::global>;
template class FlatPath<Space::scratch>;

}  // namespace amd_gpu
