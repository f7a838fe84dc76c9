// MFMA: D = A * B + C over all 64 lanes (EXEC does not matter). Names are those of gfx90a and of gfx942.
// Source: AMD Instinct MI300 ISA, "Matrix Arithmetic Instructions"; layouts as AMD's matrix instruction
// calculator gives them. The order of the sum over k is not specified; here it is k's, with fused roundings.
// Not here: the sparse v_smfmac.
#include "lanes.h"

namespace amd_gpu {
namespace {

// How elements of A and B lie in a lane's registers, and in which type products are summed up.
struct F32 {
  using Sum = f32;
  static constexpr unsigned bits = 32;
  static f32 decode(u64 raw) { return as<f32>(low32(raw)); }
};
// f32 whose lowest 13 bits of the mantissa do not count.
struct Xf32 {
  using Sum = f32;
  static constexpr unsigned bits = 32;
  static f32 decode(u64 raw) { return as<f32>(low32(raw) & 0xffffe000); }
};
struct F16 {
  using Sum = f32;
  static constexpr unsigned bits = 16;
  static f32 decode(u64 raw) { return half_to_float(static_cast<u16>(raw)); }
};
struct Bf16 {
  using Sum = f32;
  static constexpr unsigned bits = 16;
  static f32 decode(u64 raw) { return bf16_to_float(static_cast<u16>(raw)); }
};
template <class Format>
struct F8 {
  using Sum = f32;
  static constexpr unsigned bits = 8;
  static f32 decode(u64 raw) { return Format::decode(static_cast<u8>(raw)); }
};
struct I8 {
  using Sum = i32;
  static constexpr unsigned bits = 8;
  static i32 decode(u64 raw) { return static_cast<i8>(raw); }
};
struct F64 {
  using Sum = f64;
  static constexpr unsigned bits = 64;
  static f64 decode(u64 raw) { return as<f64>(raw); }
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

// Element `k` of a lane's registers from `index` on.
template <class Input>
typename Input::Sum element(const Wave& wave, u16 index, unsigned lane, unsigned k) {
  if constexpr (Input::bits == 64) {
    return Input::decode(join(wave.vector[index + 2 * k][lane], wave.vector[index + 2 * k + 1][lane]));
  } else {
    constexpr unsigned each = 32 / Input::bits;
    return Input::decode(wave.vector[index + k / each][lane] >> (Input::bits * (k % each)));
  }
}

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

// `blocks` independent products of a square result: side x k by k x side.
struct Shape {
  unsigned side, k, blocks;
};
constexpr u32 packed_shape(Shape shape) {
  return shape.side | shape.k << 8 | shape.blocks << 16;
}
constexpr Shape unpacked_shape(u32 detail) {
  return {detail & 0xff, detail >> 8 & 0xff, detail >> 16};
}

// The largest inputs (32x32x16, 16x16x32, 16 blocks of 4x4x4 are fewer) and results (32x32, two blocks).
constexpr unsigned most_inputs = 1024, most_results = 2048;

template <class X, class Y>
class Product {
 public:
  using Sum = typename X::Sum;

  Product(const Instruction& in)
      : in_(in),
        shape_(unpacked_shape(in.detail)),
        each_(shape_.side * shape_.k * shape_.blocks / lanes),
        results_(shape_.side * shape_.side * shape_.blocks / lanes) {}

  // Lanes go along the rows of A (the columns of B), then through the blocks, then along k in runs of each_.
  void load(const Wave& wave) {
    const u16 first_a = in_.operand(1).index, first_b = in_.operand(2).index;
    const auto [side, k_total, blocks] = shape_;
    for (unsigned l = 0; l < lanes; l++) {
      const unsigned row = l % side, block = l / side % blocks, run = l / (side * blocks);
      const unsigned from_b = is_double ? l : lane_of_b(in_.blgp, l);
      for (unsigned k = 0; k < each_; k++) {
        const unsigned at = run * each_ + k;
        const Sum a = element<X>(wave, first_a, l, k), b = element<Y>(wave, first_b, from_b, k);
        a_[(block * side + row) * k_total + at] = negated(1) ? -a : a;
        b_[(block * k_total + at) * side + row] = negated(2) ? -b : b;
      }
    }
  }

  void load_addend(const Wave& wave) {
    const Operand& operand = in_.operand(3);
    for (unsigned l = 0; l < lanes; l++) {
      for (unsigned r = 0; r < results_; r++) {
        Sum value;
        if (!operand.is_vector())
          value = uniform<Sum>(wave, operand);
        else if constexpr (is_double)
          value = element<F64>(wave, operand.index, l, r);
        else
          value = as<Sum>(wave.vector[operand.index + r][l]);
        d_[place(l, r)] = negated(4) ? -value : value;
      }
    }
  }

  // cbsz and abid: groups of 2^cbsz blocks share the abid-th of their A.
  void multiply() {
    const auto [side, k_total, blocks] = shape_;
    const unsigned shared = (1u << in_.cbsz) - 1;
    for (unsigned block = 0; block < blocks; block++) {
      const unsigned block_a = ((block & ~shared) | (in_.abid & shared)) % blocks;
      for (unsigned row = 0; row < side; row++) {
        Sum* sums = &d_[(block * side + row) * side];
        for (unsigned k = 0; k < k_total; k++) {
          const Sum factor = a_[(block_a * side + row) * k_total + k];
          const Sum* factors = &b_[(block * k_total + k) * side];
          for (unsigned column = 0; column < side; column++) {
            sums[column] = multiply_add(factor, factors[column], sums[column]);
          }
        }
      }
    }
  }

  void store(Wave& wave) const {
    const u16 to = in_.operand(0).index;
    for (unsigned l = 0; l < lanes; l++) {
      for (unsigned r = 0; r < results_; r++) {
        const Sum value = d_[place(l, r)];
        if constexpr (is_double) {
          wave.vector[to + 2 * r][l] = low32(as<u64>(value));
          wave.vector[to + 2 * r + 1][l] = high32(as<u64>(value));
        } else {
          wave.vector[to + r][l] = as<u32>(value);
        }
      }
    }
  }

 private:
  static constexpr bool is_double = sizeof(Sum) == 8;

  // The f64 forms have signs of A, B and C where the others have blgp.
  bool negated(unsigned bit) const { return is_double && (in_.blgp & bit); }

  // Where result `r` of a lane is in d_: rows in fours (in f64: one by one), first along the lanes, then r.
  unsigned place(unsigned lane, unsigned r) const {
    const auto [side, k_total, blocks] = shape_;
    const unsigned across = lanes / side, group = lane / side, column = lane % side;
    unsigned block, row;
    if (is_double) {
      const unsigned number = r * across + group;
      block = number % blocks, row = number / blocks;
    } else {
      const unsigned four = r / 4 * across + group;
      block = four / (side / 4), row = 4 * (four % (side / 4)) + r % 4;
    }
    return (block * side + row) * side + column;
  }

  const Instruction& in_;
  const Shape shape_;
  const unsigned each_, results_;  // elements of A and of B, and results, in each lane
  Sum a_[most_inputs], b_[most_inputs], d_[most_results];
};

template <class X, class Y>
void mfma(Wave& wave, const Instruction& in) {
  Product<X, Y> product(in);
  product.load(wave);
  product.load_addend(wave);
  product.multiply();
  product.store(wave);
}

template <class X, unsigned side, unsigned k, unsigned blocks>
void add(Table& table, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    table.add(name, Entry{.execute = mfma<X, X>, .detail = packed_shape({side, k, blocks})});
  }
}

void add_f32(Table& t) {
  add<F32, 32, 1, 2>(t, {"v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32"});
  add<F32, 16, 1, 4>(t, {"v_mfma_f32_16x16x1f32", "v_mfma_f32_16x16x1_4b_f32"});
  add<F32, 4, 1, 16>(t, {"v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32"});
  add<F32, 32, 2, 1>(t, {"v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32"});
  add<F32, 16, 4, 1>(t, {"v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32"});
  add<Xf32, 32, 4, 1>(t, {"v_mfma_f32_32x32x4_xf32"});
  add<Xf32, 16, 8, 1>(t, {"v_mfma_f32_16x16x8_xf32"});
  add<F64, 16, 4, 1>(t, {"v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64"});
  add<F64, 4, 4, 4>(t, {"v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64"});
}

void add_half(Table& t) {
  add<F16, 32, 4, 2>(t, {"v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16"});
  add<F16, 16, 4, 4>(t, {"v_mfma_f32_16x16x4f16", "v_mfma_f32_16x16x4_4b_f16"});
  add<F16, 4, 4, 16>(t, {"v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16"});
  add<F16, 32, 8, 1>(t, {"v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16"});
  add<F16, 16, 16, 1>(t, {"v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16"});
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
}

template <class X, class Y>
void add_pair(Table& t, const std::string& types) {
  t.add("v_mfma_f32_32x32x16_" + types,
        Entry{.execute = mfma<F8<X>, F8<Y>>, .detail = packed_shape({32, 16, 1})});
  t.add("v_mfma_f32_16x16x32_" + types,
        Entry{.execute = mfma<F8<X>, F8<Y>>, .detail = packed_shape({16, 32, 1})});
}

}  // namespace

void add_matrix(Table& t) {
  add_f32(t);
  add_half(t);
  add_integer(t);
  add_pair<Fp8, Fp8>(t, "fp8_fp8");
  add_pair<Fp8, Bf8>(t, "fp8_bf8");
  add_pair<Bf8, Fp8>(t, "bf8_fp8");
  add_pair<Bf8, Bf8>(t, "bf8_bf8");
}

}  // namespace amd_gpu
