// MFMA: D = A * B + C over all 64 lanes (EXEC does not matter). Names are those of gfx90a, of gfx942 and of
// gfx950. The order of the sum over k is not specified; here it is k's, with fused roundings.
#include "matrix.h"

namespace amd_gpu {
namespace {

// blgp: the lanes of B come from other groups of lanes.
inline unsigned lane_of_b(unsigned blgp, unsigned lane) {
  switch (blgp) {
    case 1:
      return lane & 31;  // the first half for both
    case 2:
      return lane | 32;
    case 3:
      return (lane + 16) & 63;  // rotated by 16
    case 4:
    case 5:
    case 6:
    case 7:
      return (lane & 15) + 16 * (blgp - 4);  // one quarter for all
    default:
      return lane;
  }
}

// Row by row: side x k by k x side, with `blocks` independent products. Lanes go along the rows of A (the
// columns of B), then through the blocks, then along k in runs of `each`.
template <class Sum, unsigned side, unsigned k_total, unsigned blocks>
struct Product {
  static constexpr unsigned each = side * k_total * blocks / lanes;

  Sum a[each][lanes], b[each][lanes];

  // Sums of one row of the result. cbsz and abid: groups of 2^cbsz blocks share the abid-th of their A.
  void add_row(Row at, const Instruction& in, Sum* sums) const {
    const unsigned shared = (1u << in.cbsz) - 1;
    const unsigned block_a = ((at.block & ~shared) | (in.abid & shared)) % blocks;
    Sum row[side];
    for (unsigned column = 0; column < side; column++) row[column] = sums[column];
    for (unsigned run = 0; run < k_total / each; run++) {
      for (unsigned k = 0; k < each; k++) {
        const Sum factor = a[k][(run * blocks + block_a) * side + at.row];
        const Sum* factors = &b[k][(run * blocks + at.block) * side];
        for (unsigned column = 0; column < side; column++)
          row[column] = multiply_add(factor, factors[column], row[column]);
      }
    }
    for (unsigned column = 0; column < side; column++) sums[column] = row[column];
  }
};

template <class X, class Y, unsigned side, unsigned k_total, unsigned blocks>
void mfma(Wave& wave, const Instruction& in) {
  using Sum = typename X::Sum;
  Product<Sum, side, k_total, blocks> product;
  constexpr unsigned each = product.each, results = side * side * blocks / lanes;
  decode_elements<X, each>(wave, in.operand(1).index, product.a);
  decode_elements<Y, each>(wave, in.operand(2).index, product.b);
  if (in.blgp) {
    for (unsigned k = 0; k < each; k++) {
      Sum moved[lanes];
      for (unsigned l = 0; l < lanes; l++) moved[l] = product.b[k][lane_of_b(in.blgp, l)];
      std::memcpy(product.b[k], moved, sizeof moved);
    }
  }
  const u16 to = in.operand(0).index;
  // C may overlap D in other registers than its own: it is read before anything is written.
  Sum sums[results][lanes];
  read_addend(wave, in.operand(3), sums);
  for (unsigned r = 0; r < results; r++) {
    for (unsigned group = 0; group < lanes / side; group++)
      product.add_row(row_of<side>(r, group), in, &sums[r][group * side]);
    std::memcpy(wave.vector[to + r], sums[r], sizeof sums[r]);
  }
}

// f64, where rows go one by one along the lanes, and what is blgp elsewhere are the signs of A, B and C.
template <unsigned side, unsigned blocks>
void mfma_double(Wave& wave, const Instruction& in) {
  constexpr unsigned results = side * side * blocks / lanes, across = lanes / side;
  Product<f64, side, 4, blocks> product;
  const auto read = [&](const Operand& operand, unsigned r, f64* to, bool negate) {
    const f64 same = operand.is_vector() ? 0 : uniform<f64>(wave, operand);
    for (unsigned l = 0; l < lanes; l++) {
      const f64 value = operand.is_vector() ? as<f64>(join(wave.vector[operand.index + 2 * r][l],
                                                           wave.vector[operand.index + 2 * r + 1][l]))
                                            : same;
      to[l] = negate ? -value : value;
    }
  };
  read(in.operand(1), 0, product.a[0], in.blgp & 1);
  read(in.operand(2), 0, product.b[0], in.blgp & 2);
  f64 sums[results][lanes];
  for (unsigned r = 0; r < results; r++) read(in.operand(3), r, sums[r], in.blgp & 4);
  const u16 to = in.operand(0).index;
  for (unsigned r = 0; r < results; r++) {
    for (unsigned group = 0; group < across; group++) {
      const unsigned number = r * across + group;
      product.add_row({number % blocks, number / blocks}, in, &sums[r][group * side]);
    }
    for (unsigned l = 0; l < lanes; l++) {
      wave.vector[to + 2 * r][l] = low32(as<u64>(sums[r][l]));
      wave.vector[to + 2 * r + 1][l] = high32(as<u64>(sums[r][l]));
    }
  }
}

template <class X, unsigned side, unsigned k, unsigned blocks>
void add(Table& table, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) table.add(name, mfma<X, X, side, k, blocks>);
}

void add_f32(Table& t) {
  add<F32, 32, 1, 2>(t, {"v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32"});
  add<F32, 16, 1, 4>(t, {"v_mfma_f32_16x16x1f32", "v_mfma_f32_16x16x1_4b_f32"});
  add<F32, 4, 1, 16>(t, {"v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32"});
  add<F32, 32, 2, 1>(t, {"v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32"});
  add<F32, 16, 4, 1>(t, {"v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32"});
  add<Xf32, 32, 4, 1>(t, {"v_mfma_f32_32x32x4_xf32"});
  add<Xf32, 16, 8, 1>(t, {"v_mfma_f32_16x16x8_xf32"});
  for (const char* name : {"v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64"})
    t.add(name, mfma_double<16, 1>);
  for (const char* name : {"v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64"}) t.add(name, mfma_double<4, 4>);
}

void add_half(Table& t) {
  add<F16, 32, 4, 2>(t, {"v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16"});
  add<F16, 16, 4, 4>(t, {"v_mfma_f32_16x16x4f16", "v_mfma_f32_16x16x4_4b_f16"});
  add<F16, 4, 4, 16>(t, {"v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16"});
  add<F16, 32, 8, 1>(t, {"v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16"});
  add<F16, 16, 16, 1>(t, {"v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16"});
  add<F16, 32, 16, 1>(t, {"v_mfma_f32_32x32x16_f16"});
  add<F16, 16, 32, 1>(t, {"v_mfma_f32_16x16x32_f16"});
  add<Bf16, 32, 16, 1>(t, {"v_mfma_f32_32x32x16_bf16"});
  add<Bf16, 16, 32, 1>(t, {"v_mfma_f32_16x16x32_bf16"});
  // The older bf16 forms take two elements for each lane, those of "1k" four.
  add<Bf16, 32, 2, 2>(t, {"v_mfma_f32_32x32x2bf16"});
  add<Bf16, 16, 2, 4>(t, {"v_mfma_f32_16x16x2bf16"});
  add<Bf16, 4, 2, 16>(t, {"v_mfma_f32_4x4x2bf16"});
  add<Bf16, 32, 4, 1>(t, {"v_mfma_f32_32x32x4bf16"});
  add<Bf16, 16, 8, 1>(t, {"v_mfma_f32_16x16x8bf16"});
  add<Bf16, 32, 4, 2>(t, {"v_mfma_f32_32x32x4bf16_1k", "v_mfma_f32_32x32x4_2b_bf16"});
  add<Bf16, 16, 4, 4>(t, {"v_mfma_f32_16x16x4bf16_1k", "v_mfma_f32_16x16x4_4b_bf16"});
  add<Bf16, 4, 4, 16>(t, {"v_mfma_f32_4x4x4bf16_1k", "v_mfma_f32_4x4x4_16b_bf16"});
  add<Bf16, 32, 8, 1>(t, {"v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8_bf16"});
  add<Bf16, 16, 16, 1>(t, {"v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16"});
}

void add_integer(Table& t) {
  add<I8, 32, 4, 2>(t, {"v_mfma_i32_32x32x4i8", "v_mfma_i32_32x32x4_2b_i8"});
  add<I8, 16, 4, 4>(t, {"v_mfma_i32_16x16x4i8", "v_mfma_i32_16x16x4_4b_i8"});
  add<I8, 4, 4, 16>(t, {"v_mfma_i32_4x4x4i8", "v_mfma_i32_4x4x4_16b_i8"});
  add<I8, 32, 8, 1>(t, {"v_mfma_i32_32x32x8i8"});
  add<I8, 16, 16, 1>(t, {"v_mfma_i32_16x16x16i8"});
  add<I8, 32, 16, 1>(t, {"v_mfma_i32_32x32x16_i8"});
  add<I8, 16, 32, 1>(t, {"v_mfma_i32_16x16x32_i8"});
  add<I8, 32, 32, 1>(t, {"v_mfma_i32_32x32x32_i8"});
  add<I8, 16, 64, 1>(t, {"v_mfma_i32_16x16x64_i8"});
}

template <class X, class Y>
void add_pair(Table& t, const std::string& types) {
  t.add("v_mfma_f32_32x32x16_" + types, mfma<F8<X>, F8<Y>, 32, 16, 1>);
  t.add("v_mfma_f32_16x16x32_" + types, mfma<F8<X>, F8<Y>, 16, 32, 1>);
}
template <class Fp, class Bf>
void add_pairs(Table& t) {
  add_pair<Fp, Fp>(t, "fp8_fp8");
  add_pair<Fp, Bf>(t, "fp8_bf8");
  add_pair<Bf, Fp>(t, "bf8_fp8");
  add_pair<Bf, Bf>(t, "bf8_bf8");
}

}  // namespace

void add_matrix(Table& t, Target target) {
  add_f32(t);
  add_half(t);
  add_integer(t);
  target == Target::gfx950 ? add_pairs<Fp8, Bf8>(t) : add_pairs<Fp8Fnuz, Bf8Fnuz>(t);
}

}  // namespace amd_gpu
