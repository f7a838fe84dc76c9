// DPP and SDWA: sources that come from other lanes, and from parts of a register.
#include "lanes.h"

namespace amd_gpu {
namespace {

constexpr unsigned row = 16;

// The lane that `lane` reads, or -1 where there is none.
// Source: AMD Instinct MI300 ISA, "Data Parallel Processing (DPP)", table of DPP_CTRL.
int source_lane(const Instruction& instruction, int lane) {
  const int start = lane & ~static_cast<int>(row - 1), inside = lane & (row - 1), by = instruction.move_by;
  switch (instruction.move) {
    case Move::none:
      return lane;
    case Move::quad_perm:
      return (lane & ~3) + instruction.quad[lane & 3];
    case Move::row_shl:
      return inside + by < 16 ? lane + by : -1;
    case Move::row_shr:
      return inside >= by ? lane - by : -1;
    case Move::row_ror:
      return start + ((inside - by) & 15);
    case Move::wave_shl:
      return lane < 63 ? lane + 1 : -1;
    case Move::wave_rol:
      return (lane + 1) & 63;
    case Move::wave_shr:
      return lane - 1;
    case Move::wave_ror:
      return (lane - 1) & 63;
    case Move::row_mirror:
      return start + 15 - inside;
    case Move::row_half_mirror:
      return (lane & ~7) + 7 - (lane & 7);
    case Move::row_bcast15:
      return start - 1;
    case Move::row_bcast31:
      return lane >= 32 ? 31 : -1;
    case Move::row_newbcast:
      return start + by;
  }
  return lane;
}

}  // namespace

Moved moved_lanes(const Instruction& instruction, u64 exec) {
  Moved moved{};
  for (unsigned l = 0; l < lanes; l++) {
    const int from = source_lane(instruction, static_cast<int>(l));
    if (from < 0 || !(exec >> from & 1)) continue;
    moved.from[l] = static_cast<u8>(from);
    moved.valid |= u64{1} << l;
  }
  return moved;
}

u64 writable_lanes(const Instruction& instruction, u64 exec) {
  u64 mask = instruction.bound_ctrl ? exec : exec & moved_lanes(instruction, exec).valid;
  for (unsigned l = 0; l < lanes; l++) {
    const bool in_row = instruction.row_mask >> (l / row) & 1,
               in_bank = instruction.bank_mask >> (l / 4 % 4) & 1;
    if (!in_row || !in_bank) mask &= ~(u64{1} << l);
  }
  return mask;
}

void select_part(Part part, bool sign_extend, const u32* from, u32* to) {
  const unsigned number = static_cast<unsigned>(part);
  if (part == Part::all) {
    for (unsigned l = 0; l < lanes; l++) to[l] = from[l];
    return;
  }
  const bool byte = part <= Part::byte3;
  const unsigned shift = byte ? 8 * number : 16 * (number - static_cast<unsigned>(Part::word0));
  const unsigned unused = byte ? 24 : 16;
  for (unsigned l = 0; l < lanes; l++) {
    const u32 top = from[l] >> shift << unused;
    to[l] = sign_extend ? static_cast<u32>(static_cast<i32>(top) >> unused) : top >> unused;
  }
}

const u32* rearranged(const Wave& wave, const Instruction& instruction, const Operand& operand, unsigned slot,
                      const u32* from, Lanes<u32>& room) {
  if (instruction.dpp && slot == 0) {
    const Moved moved = moved_lanes(instruction, wave.exec());
    Lanes<u32> result;
    for (unsigned l = 0; l < lanes; l++) result[l] = moved.valid >> l & 1 ? from[moved.from[l]] : 0;
    room = result;
    return room.lane;
  }
  if (instruction.sdwa && slot < 2) {
    Lanes<u32> result;
    select_part(slot ? instruction.source1 : instruction.source0, operand.sign_extend, from, result.lane);
    room = result;
    return room.lane;
  }
  return from;
}

// Puts 32-bit results into the SDWA destination's part.
static void place_part(const Instruction& instruction, const u32* old, u32* values) {
  const Part part = instruction.destination;
  if (part == Part::all) return;
  const bool byte = part <= Part::byte3;
  const unsigned number = static_cast<unsigned>(part) - (byte ? 0 : static_cast<unsigned>(Part::word0));
  const unsigned bits = byte ? 8 : 16, shift = number * bits;
  const u32 mask = (byte ? 0xffu : 0xffffu) << shift;
  for (unsigned l = 0; l < lanes; l++) {
    u32 value = values[l] << shift & mask;
    if (instruction.unused == Instruction::Unused::preserve) {
      value |= old[l] & ~mask;
    } else if (instruction.unused == Instruction::Unused::sign_extend) {
      const unsigned above = 32 - shift - bits;
      value = static_cast<u32>(static_cast<i32>(value << above) >> above);
    }
    values[l] = value;
  }
}

template <class T>
const T* any_source(const Wave& wave, const Instruction& instruction, unsigned which, unsigned slot,
                    Lanes<T>& room) {
  const Operand& operand = instruction.operand(which);
  const bool signs = is_real<T> && (operand.negate || operand.absolute);
  // Half a scalar register is selected like half a vector register; constants have no halves.
  const bool has_halves = sizeof(T) == 2 && operand.is_scalar();
  if (!operand.is_vector() && !instruction.sdwa && !has_halves) {
    const T same = uniform<T>(wave, operand);
    for (unsigned l = 0; l < lanes; l++) room[l] = same;
  } else if constexpr (sizeof(T) == 8) {
    Lanes<u32> low_room, high_room;
    Operand upper = operand;
    upper.index++;
    const u32* low = words_of(wave, instruction, operand, slot, low_room);
    const u32* high = words_of(wave, instruction, upper, slot, high_room);
    for (unsigned l = 0; l < lanes; l++) room[l] = as<T>(join(low[l], high[l]));
  } else if constexpr (sizeof(T) == 4) {
    auto& words = reinterpret_cast<Lanes<u32>&>(room);
    const u32* from = words_of(wave, instruction, operand, slot, words);
    if (!signs) return reinterpret_cast<const T*>(from);
    if (from != words.lane) std::memcpy(room.lane, from, sizeof room);
  } else {
    Lanes<u32> words;
    const u32* from = words_of(wave, instruction, operand, slot, words);
    const unsigned shift = instruction.op_sel >> slot & 1 ? 16 : 0;
    for (unsigned l = 0; l < lanes; l++) room[l] = as<T>(static_cast<u16>(from[l] >> shift));
  }
  if constexpr (is_real<T>) {
    if (signs) copy_with_signs(operand, room.lane, room.lane);
  }
  return room.lane;
}

template <class T>
void scale_and_clamp(const Wave& wave, const Instruction& instruction, T* values) {
  const T scale = static_cast<T>(std::ldexp(1.0f, instruction.output_scale));
  // DX10_CLAMP decides what a NaN becomes; compilers leave it on.
  const bool nan_to_zero = wave.mode >> 8 & 1;
  for (unsigned l = 0; l < lanes; l++) {
    T value = static_cast<T>(values[l] * scale);
    if (instruction.clamp) {
      if (value != value)
        value = nan_to_zero ? T(0) : value;
      else
        value = !(value > T(0)) ? T(0) : value > T(1) ? T(1) : value;
    }
    values[l] = value;
  }
}

template <class T>
void put_any(Wave& wave, const Instruction& instruction, unsigned which, Lanes<T>& values, OtherHalf other) {
  if constexpr (is_real<T>) {
    if (instruction.clamp || instruction.output_scale) scale_and_clamp(wave, instruction, values.lane);
  }
  const Operand& operand = instruction.operand(which);
  u32* to = wave.vector[operand.index];
  const u64 mask = instruction.dpp ? writable_lanes(instruction, wave.exec()) : wave.exec();
  if constexpr (sizeof(T) == 8) {
    Lanes<u32> low, high;
    for (unsigned l = 0; l < lanes; l++)
      low[l] = low32(as<u64>(values[l])), high[l] = high32(as<u64>(values[l]));
    merge(to, low.lane, mask);
    merge(wave.vector[operand.index + 1], high.lane, mask);
  } else {
    Lanes<u32> words;
    if constexpr (sizeof(T) == 4) {
      if (!instruction.sdwa) return merge(to, reinterpret_cast<const u32*>(values.lane), mask);
      std::memcpy(words.lane, values.lane, sizeof words);
    } else {
      for (unsigned l = 0; l < lanes; l++) words[l] = as<u16>(values[l]);
      const bool upper = instruction.op_sel >> (instruction.operand_count - 1) & 1;
      if (upper) {
        for (unsigned l = 0; l < lanes; l++) words[l] = (to[l] & 0xffff) | words[l] << 16;
      } else if (other == OtherHalf::kept) {
        for (unsigned l = 0; l < lanes; l++) words[l] |= to[l] & 0xffff0000;
      }
    }
    if (instruction.sdwa) place_part(instruction, to, words.lane);
    merge(to, words.lane, mask);
  }
}

#define INSTANTIATE(T)                                                                             \
  template const T* any_source<T>(const Wave&, const Instruction&, unsigned, unsigned, Lanes<T>&); \
  template void put_any<T>(Wave&, const Instruction&, unsigned, Lanes<T>&, OtherHalf);
INSTANTIATE(u16)
INSTANTIATE(i16)
INSTANTIATE(f16)
INSTANTIATE(u32)
INSTANTIATE(i32)
INSTANTIATE(f32)
INSTANTIATE(u64)
INSTANTIATE(i64)
INSTANTIATE(f64)
#undef INSTANTIATE
template void scale_and_clamp<f16>(const Wave&, const Instruction&, f16*);
template void scale_and_clamp<f32>(const Wave&, const Instruction&, f32*);

}  // namespace amd_gpu
