// Integer arithmetic of 32 and 64 bits, sums of absolute differences.
// Source: AMD Instinct MI300 ISA, "VOP2 Instructions", "VOP3A & VOP3B Instructions".
#include "lanes.h"

namespace amd_gpu {
namespace {

i32 signed24(u32 value) {
  return static_cast<i32>(value << 8) >> 8;
}
u32 unsigned24(u32 value) {
  return value & 0xffffff;
}
u32 byte_of(u32 word, unsigned k) {
  return word >> (8 * k) & 0xff;
}

u32 byte_differences(u32 a, u32 b, u32 sum) {
  for (unsigned k = 0; k < 4; k++) {
    const i32 difference = static_cast<i32>(byte_of(a, k)) - static_cast<i32>(byte_of(b, k));
    sum += static_cast<u32>(difference < 0 ? -difference : difference);
  }
  return sum;
}

// Only where the reference's byte is not zero.
u32 masked_differences(u32 a, u32 reference, u32 sum) {
  for (unsigned k = 0; k < 4; k++) {
    if (!byte_of(reference, k)) continue;
    const i32 difference = static_cast<i32>(byte_of(a, k)) - static_cast<i32>(byte_of(reference, k));
    sum += static_cast<u32>(difference < 0 ? -difference : difference);
  }
  return sum;
}

void add_products(Table& t) {
  vector(t, "v_mul_lo_u32", [](u32 a, u32 b) { return a * b; });
  vector(t, "v_mul_hi_u32", [](u32 a, u32 b) { return high32(u64{a} * b); });
  vector(t, "v_mul_hi_i32", [](i32 a, i32 b) { return high32(static_cast<u64>(i64{a} * b)); });
  vector(t, "v_mul_u32_u24", [](u32 a, u32 b) { return unsigned24(a) * unsigned24(b); });
  vector(t, "v_mul_i32_i24",
         [](u32 a, u32 b) { return low32(static_cast<u64>(i64{signed24(a)} * signed24(b))); });
  vector(t, "v_mul_hi_u32_u24", [](u32 a, u32 b) { return high32(u64{unsigned24(a)} * unsigned24(b)); });
  vector(t, "v_mul_hi_i32_i24",
         [](u32 a, u32 b) { return high32(static_cast<u64>(i64{signed24(a)} * signed24(b))); });
  vector(t, "v_mad_u32_u24", [](u32 a, u32 b, u32 c) { return unsigned24(a) * unsigned24(b) + c; });
  vector(t, "v_mad_i32_i24",
         [](u32 a, u32 b, u32 c) { return low32(static_cast<u64>(i64{signed24(a)} * signed24(b))) + c; });
}

void add_extremes(Table& t) {
  vector(t, "v_min_u32", [](u32 a, u32 b) { return min_of(a, b); });
  vector(t, "v_max_u32", [](u32 a, u32 b) { return max_of(a, b); });
  vector(t, "v_min_i32", [](i32 a, i32 b) { return min_of(a, b); });
  vector(t, "v_max_i32", [](i32 a, i32 b) { return max_of(a, b); });
  vector(t, "v_min3_u32", [](u32 a, u32 b, u32 c) { return min_of(min_of(a, b), c); });
  vector(t, "v_max3_u32", [](u32 a, u32 b, u32 c) { return max_of(max_of(a, b), c); });
  vector(t, "v_med3_u32", [](u32 a, u32 b, u32 c) { return middle_of(a, b, c); });
  vector(t, "v_min3_i32", [](i32 a, i32 b, i32 c) { return min_of(min_of(a, b), c); });
  vector(t, "v_max3_i32", [](i32 a, i32 b, i32 c) { return max_of(max_of(a, b), c); });
  vector(t, "v_med3_i32", [](i32 a, i32 b, i32 c) { return middle_of(a, b, c); });
}

void add_differences(Table& t) {
  vector(t, "v_sad_u8", [](u32 a, u32 b, u32 c) { return byte_differences(a, b, c); });
  vector(t, "v_sad_hi_u8", [](u32 a, u32 b, u32 c) { return (byte_differences(a, b, 0) << 16) + c; });
  vector(t, "v_sad_u16", [](u32 a, u32 b, u32 c) {
    const i32 low = static_cast<i32>(a & 0xffff) - static_cast<i32>(b & 0xffff);
    const i32 high = static_cast<i32>(a >> 16) - static_cast<i32>(b >> 16);
    return c + static_cast<u32>(low < 0 ? -low : low) + static_cast<u32>(high < 0 ? -high : high);
  });
  vector(t, "v_sad_u32", [](u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; });
  vector(t, "v_msad_u8", [](u32 a, u32 b, u32 c) { return masked_differences(a, b, c); });
  vector(t, "v_lerp_u8", [](u32 a, u32 b, u32 c) {
    u32 result = 0;
    for (unsigned k = 0; k < 4; k++) {
      result |= (byte_of(a, k) + byte_of(b, k) + (byte_of(c, k) & 1)) >> 1 << (8 * k);
    }
    return result;
  });
}

}  // namespace

void add_vector_integer(Table& t) {
  vector(
      t, "v_add_u32", [](u32 a, u32 b) { return a + b; },
      [](u32 a, u32 b) { return saturated<u32>(u64{a} + b); });
  vector(t, "v_sub_u32", [](u32 a, u32 b) { return a - b; }, [](u32 a, u32 b) { return a > b ? a - b : 0u; });
  vector(
      t, "v_subrev_u32", [](u32 a, u32 b) { return b - a; }, [](u32 a, u32 b) { return b > a ? b - a : 0u; });
  vector(
      t, "v_add_i32", [](u32 a, u32 b) { return a + b; },
      [](i32 a, i32 b) { return saturated<i32>(i64{a} + b); });
  vector(
      t, "v_sub_i32", [](u32 a, u32 b) { return a - b; },
      [](i32 a, i32 b) { return saturated<i32>(i64{a} - b); });
  vector(t, "v_add3_u32", [](u32 a, u32 b, u32 c) { return a + b + c; });
  vector(t, "v_lshl_add_u32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; });
  vector(t, "v_add_lshl_u32", [](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); });
  vector(t, "v_xad_u32", [](u32 a, u32 b, u32 c) { return (a ^ b) + c; });
  // The shift count has three bits.
  in_words(t, "v_lshl_add_u64", [](Words a, u32 b, Words c) { return sum_of(shifted(a, b & 7), c); });
  add_products(t);
  add_extremes(t);
  add_differences(t);
}

}  // namespace amd_gpu
