// The pseudo-random numbers of v_prng_b32, with which some conversions make further seeds from theirs.
#ifndef KERNCAP_AMD_GPU_ISA_RANDOM_H
#define KERNCAP_AMD_GPU_ISA_RANDOM_H

#include "numbers.h"

namespace amd_gpu {

// A shift register with feedback. Source: AMD Instinct CDNA4 ISA, V_PRNG_B32.
constexpr u32 next_random(u32 state) {
  return state << 1 ^ (state >> 31 ? 197u : 0u);
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_RANDOM_H
