// Read, change, write: what the atomics of memory, buffers and LDS have in common.
#ifndef KERNCAP_AMD_GPU_ISA_ATOMICS_H
#define KERNCAP_AMD_GPU_ISA_ATOMICS_H

#include "lanes.h"

namespace amd_gpu {

// Atomic against the host and the other queues' threads.
template <class T, class Change>
T change_word(u8* at, Change change) {
  using Bits = std::conditional_t<sizeof(T) == 8, u64, u32>;
  auto* word = reinterpret_cast<Bits*>(at);
  Bits old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(word, &old, as<Bits>(change(as<T>(old))), false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
  }
  return as<T>(old);
}

template <class T>
T lane_value(const Wave& wave, u16 index, unsigned lane) {
  if constexpr (sizeof(T) == 8)
    return as<T>(join(wave.vector[index][lane], wave.vector[index + 1][lane]));
  else
    return as<T>(wave.vector[index][lane]);
}
template <class T>
void set_lane_value(Wave& wave, u16 index, unsigned lane, T value) {
  if constexpr (sizeof(T) == 8) {
    wave.vector[index][lane] = low32(as<u64>(value));
    wave.vector[index + 1][lane] = high32(as<u64>(value));
  } else {
    wave.vector[index][lane] = as<u32>(value);
  }
}

// What an atomic makes of memory and its operand.
template <class T>
constexpr T wrap_increment(T old, T limit) {
  return old >= limit ? T(0) : old + 1;
}
template <class T>
constexpr T wrap_decrement(T old, T limit) {
  return old == 0 || old > limit ? limit : old - 1;
}

inline u32 add_half_pairs(u32 a, u32 b) {
  const f32 low = half_to_float(half_of(a, false)) + half_to_float(half_of(b, false));
  const f32 high = half_to_float(half_of(a, true)) + half_to_float(half_of(b, true));
  return pack(float_to_half(low), float_to_half(high));
}
inline u32 add_bf16_pairs(u32 a, u32 b) {
  const f32 low = bf16_to_float(half_of(a, false)) + bf16_to_float(half_of(b, false));
  const f32 high = bf16_to_float(half_of(a, true)) + bf16_to_float(half_of(b, true));
  return pack(float_to_bf16(low), float_to_bf16(high));
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_ATOMICS_H
