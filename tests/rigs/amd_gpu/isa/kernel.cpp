// Source: LLVM, "User Guide for AMDGPU Backend", sections "Kernel Descriptor" and "Initial Kernel Execution
// State".
#include "kernel.h"

#include <algorithm>

#include "mode.h"

namespace amd_gpu {
namespace {

constexpr u32 descriptor_bytes = 64;

// hsa_kernel_dispatch_packet_t of hsa.h, declared here so that instructions can be tested without ROCm.
struct DispatchPacket {
  u16 header, setup;
  u16 workgroup_size_x, workgroup_size_y, workgroup_size_z, reserved0;
  u32 grid_size_x, grid_size_y, grid_size_z;
  u32 private_segment_size, group_segment_size;
  u64 kernel_object, kernarg_address, reserved2, completion_signal;
};
static_assert(sizeof(DispatchPacket) == 64);

// kernel_code_properties
enum Property : u16 {
  private_segment_buffer = 1 << 0,
  dispatch_ptr = 1 << 1,
  queue_ptr = 1 << 2,
  kernarg_segment_ptr = 1 << 3,
  dispatch_id = 1 << 4,
  flat_scratch_init = 1 << 5,
  private_segment_size = 1 << 6,
};

// compute_pgm_rsrc2
enum Rsrc2 : u32 {
  private_segment = 1 << 0,
  workgroup_id_x = 1 << 7,
  workgroup_id_y = 1 << 8,
  workgroup_id_z = 1 << 9,
  workgroup_info = 1 << 10,
};

template <class T>
T field(const u8* descriptor, u32 offset) {
  T value;
  std::memcpy(&value, descriptor + offset, sizeof value);
  return value;
}

u32 groups_along(u32 grid, u32 group) {
  return grid / group + (grid % group != 0);
}

}  // namespace

Kernel::Kernel(const Dispatch& dispatch) : dispatch_(dispatch) {
  DispatchPacket packet;
  std::memcpy(&packet, dispatch.packet, sizeof packet);
  const u8* descriptor = dispatch.memory->translate(packet.kernel_object, descriptor_bytes);
  if (!descriptor) {
    throw Stop{FaultKind::code_object, "no kernel descriptor at the packet's kernel_object",
               packet.kernel_object};
  }
  group_ = {packet.workgroup_size_x, std::max<u32>(1, packet.workgroup_size_y),
            std::max<u32>(1, packet.workgroup_size_z)};
  grid_ = {packet.grid_size_x, std::max<u32>(1, packet.grid_size_y), std::max<u32>(1, packet.grid_size_z)};
  if (!group_.x || !grid_.x || group_.product() > 1024) {
    throw Stop{FaultKind::code_object, "the packet's grid or workgroup is empty, or the workgroup too large"};
  }
  groups_ = {groups_along(grid_.x, group_.x), groups_along(grid_.y, group_.y),
             groups_along(grid_.z, group_.z)};
  kernarg_ = packet.kernarg_address;
  lds_bytes = std::max(field<u32>(descriptor, 0), packet.group_segment_size);
  private_bytes = std::max(field<u32>(descriptor, 4), packet.private_segment_size);
  entry_ = packet.kernel_object + field<u64>(descriptor, 16);
  const u32 rsrc3 = field<u32>(descriptor, 44);
  rsrc1_ = field<u32>(descriptor, 48);
  rsrc2_ = field<u32>(descriptor, 52);
  properties_ = field<u16>(descriptor, 56);
  preload_ = field<u16>(descriptor, 58);
  // Registers come in eights; accumulation registers follow the vector registers from accum_offset on.
  const u32 total = std::min<u32>(512, 8 * ((rsrc1_ & 63) + 1));
  vector_registers = std::min(total, std::min<u32>(256, 4 * ((rsrc3 & 63) + 1)));
  accumulation_registers = std::min<u32>(256, total - vector_registers);
  // Scalar registers come in sixteens; the descriptor counts eights.
  scalar_registers_saved = 16 * ((rsrc1_ >> 6 & 15) / 2 + 1);
  for (u32 k = 0; k < waves_of_group(); k++) ids_.push_back(ids_of(group_, k));
}

Size3 Kernel::group_position(u64 number) const {
  if (number < groups_.x) return {static_cast<u32>(number), 0, 0};  // without divisions
  return {static_cast<u32>(number % groups_.x), static_cast<u32>(number / groups_.x % groups_.y),
          static_cast<u32>(number / groups_.x / groups_.y)};
}

Size3 Kernel::size_of(const Size3& position) const {
  return {std::min(group_.x, grid_.x - position.x * group_.x),
          std::min(group_.y, grid_.y - position.y * group_.y),
          std::min(group_.z, grid_.z - position.z * group_.z)};
}

u64 Kernel::waves_at(const Size3& position) const {
  const Size3 size = size_of(position);
  return size == group_ ? ids_.size() : (size.product() + lanes - 1) / lanes;
}

// x, y and z of the work-items in one wave, ten bits each.
Kernel::Ids Kernel::ids_of(const Size3& size, u32 wave_number) const {
  const u64 first = u64{wave_number} * lanes, items = size.product();
  u32 x = static_cast<u32>(first % size.x), y = static_cast<u32>(first / size.x % size.y);
  u32 z = static_cast<u32>(first / size.x / size.y);
  Ids ids{};
  for (u32 l = 0; l < lanes && first + l < items; l++) {
    ids[l] = x | y << 10 | z << 20;
    if (++x < size.x) continue;
    x = 0;
    if (++y == size.y) y = 0, z++;
  }
  return ids;
}

void Kernel::start_wave(Wave& wave, const Size3& position, u32 wave_number) const {
  const Size3 size = size_of(position);
  if (size == group_)
    std::memcpy(wave.vector[0], ids_[wave_number].data(), sizeof wave.vector[0]);
  else
    std::memcpy(wave.vector[0], ids_of(size, wave_number).data(), sizeof wave.vector[0]);
  const u64 left = size.product() - u64{wave_number} * lanes;
  const u64 active = left < lanes ? (u64{1} << left) - 1 : ~u64{0};
  wave.set_exec(active);
  wave.mode = mode_of_kernel(rsrc1_);
  wave.pc = entry_;
  start_scalars(wave, position);
}

// User registers in the order of the enable bits, then the workgroup's place.
void Kernel::start_scalars(Wave& wave, const Size3& position) const {
  u16 next = 0;
  const auto pair = [&](u64 value) {
    wave.set_pair(next, value);
    next += 2;
  };
  if (properties_ & private_segment_buffer) {
    pair(scratch_descriptor_base);
    pair(join(~0u, 0x00e00000));
  }
  if (properties_ & dispatch_ptr) pair(dispatch_.packet_va);
  if (properties_ & queue_ptr) pair(dispatch_.queue_va);
  if (properties_ & kernarg_segment_ptr) pair(kernarg_);
  if (properties_ & dispatch_id) pair(0);
  if (properties_ & flat_scratch_init) pair(0);
  if (properties_ & private_segment_size) wave.scalar[next++] = private_bytes;
  next = preload(wave, next);
  if (rsrc2_ & workgroup_id_x) wave.scalar[next++] = position.x;
  if (rsrc2_ & workgroup_id_y) wave.scalar[next++] = position.y;
  if (rsrc2_ & workgroup_id_z) wave.scalar[next++] = position.z;
  if (rsrc2_ & workgroup_info) wave.scalar[next++] = 0;
  // The wave's offset in scratch, where the kernel computes with it: scratch here begins at each wave's own.
  if (dispatch_.target == Target::gfx90a && (rsrc2_ & private_segment)) wave.scalar[next++] = 0;
}

// Arguments that are in registers from the start; the code that loads them is 256 bytes, and skipped.
u16 Kernel::preload(Wave& wave, u16 next) const {
  const u16 length = preload_ & 0x7f, offset = preload_ >> 7;
  const u16 user_registers = rsrc2_ >> 1 & 31;
  if (length) {
    const u16 fit = std::min<u16>(length, static_cast<u16>(scalar_registers - next));
    wave.reach.refresh();
    wave.reach.read(kernarg_ + 4 * offset, &wave.scalar[next], 4 * fit);
    wave.pc += 256;
    return static_cast<u16>(next + fit);
  }
  return std::max(next, user_registers);
}

}  // namespace amd_gpu
