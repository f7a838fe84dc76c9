// SMFMAC: D += A * B, where of four neighbours of A along k two are stored, with an index of two bits for
// each. Source: AMD Instinct MI300 and CDNA4 ISA, "Sparse Matrices".
#include "matrix.h"

namespace amd_gpu {
namespace {

// The indices of a lane are one behind the other; a register has several sets of them where a lane has few.
template <unsigned stored>
u32 indices_of(const Wave& wave, const Instruction& in, unsigned lane) {
  constexpr unsigned bits = 2 * stored, sets = 32 / bits;
  const u32 word = wave.vector[in.operand(3).index][lane];
  const unsigned set = in.cbsz & 3 ? 0 : in.abid % sets;
  return word >> bits * set % 32;
}

template <class X, class Y, unsigned side, unsigned k_total>
void smfmac(Wave& wave, const Instruction& in) {
  using Sum = typename X::Sum;
  constexpr unsigned each = side * k_total / lanes, stored = each / 2, results = side * side / lanes;
  Sum packed[stored][lanes], a[each][lanes] = {}, b[each][lanes];
  decode_elements<X, stored>(wave, in.operand(1).index, packed);
  decode_elements<Y, each>(wave, in.operand(2).index, b);
  for (unsigned l = 0; l < lanes; l++) {
    const u32 indices = indices_of<stored>(wave, in, l);
    for (unsigned k = 0; k < stored; k++) a[k / 2 * 4 + (indices >> 2 * k & 3)][l] = packed[k][l];
  }
  const u16 to = in.operand(0).index;
  for (unsigned r = 0; r < results; r++) {
    auto* sums = reinterpret_cast<Sum*>(wave.vector[to + r]);
    for (unsigned group = 0; group < lanes / side; group++) {
      const unsigned row = row_of<side>(r, group).row;
      for (unsigned run = 0; run < lanes / side; run++) {
        for (unsigned k = 0; k < each; k++) {
          for (unsigned column = 0; column < side; column++) {
            Sum& sum = sums[group * side + column];
            sum = multiply_add(a[k][run * side + row], b[k][run * side + column], sum);
          }
        }
      }
    }
  }
}

// Two sizes, and on gfx950 also those with twice the k.
template <class X, class Y>
void add(Table& t, const std::string& result, const std::string& types) {
  constexpr unsigned k = 512 / X::bits;
  const auto name = [&](unsigned side, unsigned k_total) {
    const std::string edge = std::to_string(side);
    return "v_smfmac_" + result + "_" + edge + "x" + edge + "x" + std::to_string(k_total) + "_" + types;
  };
  t.add(name(16, k), smfmac<X, Y, 16, k>);
  t.add(name(32, k / 2), smfmac<X, Y, 32, k / 2>);
  t.add(name(16, 2 * k), smfmac<X, Y, 16, 2 * k>);
  t.add(name(32, k), smfmac<X, Y, 32, k>);
}

template <class Fp, class Bf>
void add_eight(Table& t) {
  add<F8<Fp>, F8<Fp>>(t, "f32", "fp8_fp8");
  add<F8<Fp>, F8<Bf>>(t, "f32", "fp8_bf8");
  add<F8<Bf>, F8<Fp>>(t, "f32", "bf8_fp8");
  add<F8<Bf>, F8<Bf>>(t, "f32", "bf8_bf8");
}

}  // namespace

void add_matrix_sparse(Table& t, Target target) {
  add<F16, F16>(t, "f32", "f16");
  add<Bf16, Bf16>(t, "f32", "bf16");
  add<I8, I8>(t, "i32", "i8");
  target == Target::gfx950 ? add_eight<Fp8, Bf8>(t) : add_eight<Fp8Fnuz, Bf8Fnuz>(t);
}

}  // namespace amd_gpu
