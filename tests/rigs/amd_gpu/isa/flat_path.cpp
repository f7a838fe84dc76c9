#include "flat_path.h"

namespace amd_gpu {
namespace {

template <Space space>
bool in_aperture(u64 va) {
  const u32 upper = high32(va);
  return space == Space::flat && (upper == high32(shared_aperture) || upper == high32(private_aperture));
}

}  // namespace

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
