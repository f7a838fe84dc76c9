// Products of matrices that lie across the lanes of a wave. A and B are first decoded, so that the sums run
// over rows of plain numbers for the compiler to vectorise. Source: AMD Instinct MI300 ISA, "Matrix
// Arithmetic Instructions"; layouts as AMD's matrix instruction calculator gives them.
#ifndef KERNCAP_AMD_GPU_ISA_MATRIX_H
#define KERNCAP_AMD_GPU_ISA_MATRIX_H

#include "lanes.h"
#include "small_float.h"

namespace amd_gpu {

// How elements of A and B lie in a register, and in which type products are summed up.
struct F32 {
  using Sum = f32;
  static constexpr unsigned bits = 32;
  static f32 decode(u32 raw) { return as<f32>(raw); }
};
// f32 whose lowest 13 bits of the mantissa do not count.
struct Xf32 {
  using Sum = f32;
  static constexpr unsigned bits = 32;
  static f32 decode(u32 raw) { return as<f32>(raw & 0xffffe000); }
};
struct F16 {
  using Sum = f32;
  static constexpr unsigned bits = 16;
  static f32 decode(u32 raw) { return half_to_float(static_cast<u16>(raw)); }
};
struct Bf16 {
  using Sum = f32;
  static constexpr unsigned bits = 16;
  static f32 decode(u32 raw) { return as<f32>(raw << 16); }
};
template <class Format>
struct F8 {
  using Sum = f32;
  static constexpr unsigned bits = 8;
  static f32 decode(u32 raw) { return Format::decode(raw & 0xff); }
};
struct I8 {
  using Sum = i32;
  static constexpr unsigned bits = 8;
  static i32 decode(u32 raw) { return static_cast<i8>(raw); }
};

inline f32 multiply_add(f32 a, f32 b, f32 c) {
  return std::fma(a, b, c);
}
inline f64 multiply_add(f64 a, f64 b, f64 c) {
  return std::fma(a, b, c);
}
inline i32 multiply_add(i32 a, i32 b, i32 c) {
  return static_cast<i32>(static_cast<u32>(a) * static_cast<u32>(b) + static_cast<u32>(c));
}

// `count` elements of every lane, element by element: each[k][l]. They lie one behind the other from `first`
// on.
template <class Input, unsigned count>
void decode_elements(const Wave& wave, u16 first, typename Input::Sum (*each)[lanes]) {
  constexpr unsigned in_word = 32 / Input::bits;
  for (unsigned k = 0; k < count; k++) {
    const u32* words = wave.vector[first + k / in_word];
    const unsigned shift = Input::bits * (k % in_word) % 32;
    if constexpr (std::is_same_v<Input, F16>) {
      halves_to_floats(words, shift, each[k]);
    } else {
      for (unsigned l = 0; l < lanes; l++) each[k][l] = Input::decode(words[l] >> shift);
    }
  }
}

// C: registers, or one constant for all results.
template <class Sum, unsigned results>
void read_addend(const Wave& wave, const Operand& operand, Sum (&sums)[results][lanes]) {
  if (operand.is_vector()) {
    std::memcpy(sums, wave.vector[operand.index], sizeof sums);
    return;
  }
  const Sum same = uniform<Sum>(wave, operand);
  for (unsigned r = 0; r < results; r++) {
    for (unsigned l = 0; l < lanes; l++) sums[r][l] = same;
  }
}

// Row of a block's result that register `r` has in the lanes from `group` * side on: rows go in fours, first
// along the lanes, then along the registers. All columns of a row are neighbours.
struct Row {
  unsigned block, row;
};
template <unsigned side>
constexpr Row row_of(unsigned r, unsigned group) {
  const unsigned four = r / 4 * (lanes / side) + group;
  return {four / (side / 4), 4 * (four % (side / 4)) + r % 4};
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_MATRIX_H
