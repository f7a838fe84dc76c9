// The MODE register: how floating point rounds and what becomes of denormals. The host's MXCSR does the same
// for the arithmetic of lanes. The f32 fields rule f64 and f16 too, where a kernel sets them apart.
#ifndef KERNCAP_AMD_GPU_ISA_MODE_H
#define KERNCAP_AMD_GPU_ISA_MODE_H

#include <xmmintrin.h>

#include "wave.h"

namespace amd_gpu {

// Source: AMD Instinct MI300 ISA, "MODE register fields": round 3:0, denormals 7:4, then DX10_CLAMP and IEEE.
// Bit 23, FP16_OVFL: what is too large for 8 bits becomes the largest number, not NaN or infinity.
constexpr u32 mode_overflow = 1 << 23;
constexpr u32 mode_round = 3, mode_denormals_shift = 4, mode_dx10_clamp = 1 << 8, mode_ieee = 1 << 9;

// From COMPUTE_PGM_RSRC1 of the kernel descriptor.
constexpr u32 mode_of_kernel(u32 rsrc1) {
  return (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1 ? mode_dx10_clamp : 0) | (rsrc1 >> 23 & 1 ? mode_ieee : 0);
}

inline void use_mode(u32 mode) {
  constexpr u32 host_rounding[] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN, _MM_ROUND_TOWARD_ZERO};
  constexpr u32 flush_results = 0x8000, flush_sources = 0x0040, no_exceptions = 0x1f80;
  const u32 allowed = mode >> mode_denormals_shift & 3;
  _mm_setcsr(no_exceptions | host_rounding[mode & mode_round] | (allowed & 2 ? 0 : flush_results) |
             (allowed & 1 ? 0 : flush_sources));
}

// The thread's own arithmetic is as before when this goes away.
class HostModeKept {
 public:
  HostModeKept() : kept_(_mm_getcsr()) {}
  ~HostModeKept() { _mm_setcsr(kept_); }
  HostModeKept(const HostModeKept&) = delete;
  HostModeKept& operator=(const HostModeKept&) = delete;

 private:
  u32 kept_;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_MODE_H
