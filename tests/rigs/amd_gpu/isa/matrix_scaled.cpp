// v_mfma_f32_*_f8f6f4 and v_mfma_scale_*: A and B each of 4, 6 or 8 bits, in 32 elements of every lane; with
// scales, one for each 32 along k, that count as powers of two. Source: AMD Instinct CDNA4 ISA, "Matrix
// Arithmetic Instructions", "Block scaling".
#include "matrix.h"

namespace amd_gpu {
namespace {

constexpr unsigned each = 32;  // elements of a lane, and of one scale

// Elements along k by rows. Which k an element of a lane has depends on its width: those of 8 bits come in
// two runs of 16, the second half of k_total further on; others in one run of 32.
template <unsigned side>
struct Matrix {
  static constexpr unsigned k_total = lanes / side * each;

  f32 at[k_total][side];
  f64 scale[k_total / each][side];

  template <class Format>
  void read_as(const Wave& wave, u16 first) {
    for (unsigned l = 0; l < lanes; l++) {
      const unsigned row = l % side, group = l / side;
      for (unsigned e = 0; e < each; e++) {
        const unsigned bit = e * Format::bits, word = bit / 32;
        const u32 low = wave.vector[first + word][l];
        const u32 high = bit % 32 + Format::bits > 32 ? wave.vector[first + word + 1][l] : 0;
        const unsigned k =
            Format::bits == 8 ? e / 16 * (k_total / 2) + group * 16 + e % 16 : group * each + e;
        at[k][row] = Format::decode(low32(join(low, high) >> bit % 32));
      }
    }
  }

  // cbsz says what A is, blgp what B is.
  void read(const Wave& wave, u16 first, unsigned format) {
    switch (format) {
      case 0:
        return read_as<Fp8>(wave, first);
      case 1:
        return read_as<Bf8>(wave, first);
      case 2:
        return read_as<Fp6>(wave, first);
      case 3:
        return read_as<Bf6>(wave, first);
      case 4:
        return read_as<Fp4>(wave, first);
      default:
        throw Stop{FaultKind::illegal, "no format of A or B has the number " + std::to_string(format)};
    }
  }

  // Each lane has the scale of the run of 32 that follows from its number, in the byte that op_sel says.
  void read_scales(const Wave& wave, const Instruction& in, unsigned slot) {
    const unsigned byte = (in.op_sel >> slot & 1) + 2 * (in.op_sel_hi >> slot & 1);
    const Operand& operand = in.operand(4 + slot);
    for (unsigned l = 0; l < lanes; l++) {
      const u32 word = operand.is_vector() ? wave.vector[operand.index][l] : wave.get32(operand);
      const u32 exponent = word >> 8 * byte & 0xff;
      scale[l / side][l % side] = exponent == 255 ? std::numeric_limits<f64>::quiet_NaN()
                                                  : std::ldexp(1.0, static_cast<int>(exponent) - 127);
    }
  }
};

// The sum of 32 products, times both scales, goes to the result with one rounding.
template <unsigned side, bool scaled>
void mfma(Wave& wave, const Instruction& in) {
  constexpr unsigned results = side * side / lanes;
  Matrix<side> a, b;
  a.read(wave, in.operand(1).index, in.cbsz);
  b.read(wave, in.operand(2).index, in.blgp);
  if (scaled) a.read_scales(wave, in, 0), b.read_scales(wave, in, 1);
  const u16 to = in.operand(0).index;
  f32 sums[results][lanes];
  read_addend(wave, in.operand(3), sums);
  for (unsigned r = 0; r < results; r++) {
    for (unsigned group = 0; group < lanes / side; group++) {
      const unsigned row = row_of<side>(r, group).row;
      f32* result = &sums[r][group * side];
      for (unsigned run = 0; run < a.k_total / each; run++) {
        f32 part[side];
        for (unsigned column = 0; column < side; column++) part[column] = scaled ? 0 : result[column];
        for (unsigned k = run * each; k < (run + 1) * each; k++) {
          const f32 factor = a.at[k][row];
          for (unsigned column = 0; column < side; column++)
            part[column] = std::fma(factor, b.at[k][column], part[column]);
        }
        for (unsigned column = 0; column < side; column++) {
          const f64 power = scaled ? a.scale[run][row] * b.scale[run][column] : 1;
          result[column] = scaled ? static_cast<f32>(std::fma(f64{part[column]}, power, f64{result[column]}))
                                  : part[column];
        }
      }
    }
  }
  std::memcpy(wave.vector[to], sums, sizeof sums);
}

}  // namespace

void add_matrix_scaled(Table& t) {
  t.add("v_mfma_f32_16x16x128_f8f6f4", mfma<16, false>);
  t.add("v_mfma_f32_32x32x64_f8f6f4", mfma<32, false>);
  t.add("v_mfma_scale_f32_16x16x128_f8f6f4", mfma<16, true>);
  t.add("v_mfma_scale_f32_32x32x64_f8f6f4", mfma<32, true>);
}

}  // namespace amd_gpu
