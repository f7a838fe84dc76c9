// SOPC and the comparing SOPK: results go to the condition code.
// Source: AMD Instinct MI300 ISA, "SOPC Instructions", "SOPK Instructions".
#include "scalar.h"

namespace amd_gpu {
namespace {

constexpr u32 zero_extended(i16 immediate) {
  return static_cast<u16>(immediate);
}

}  // namespace

void add_scalar_compare(Table& t) {
  scalar(t, "s_cmp_eq_i32", [](i32 a, i32 b) { return a == b; });
  scalar(t, "s_cmp_lg_i32", [](i32 a, i32 b) { return a != b; });
  scalar(t, "s_cmp_gt_i32", [](i32 a, i32 b) { return a > b; });
  scalar(t, "s_cmp_ge_i32", [](i32 a, i32 b) { return a >= b; });
  scalar(t, "s_cmp_lt_i32", [](i32 a, i32 b) { return a < b; });
  scalar(t, "s_cmp_le_i32", [](i32 a, i32 b) { return a <= b; });
  scalar(t, "s_cmp_eq_u32", [](u32 a, u32 b) { return a == b; });
  scalar(t, "s_cmp_lg_u32", [](u32 a, u32 b) { return a != b; });
  scalar(t, "s_cmp_gt_u32", [](u32 a, u32 b) { return a > b; });
  scalar(t, "s_cmp_ge_u32", [](u32 a, u32 b) { return a >= b; });
  scalar(t, "s_cmp_lt_u32", [](u32 a, u32 b) { return a < b; });
  scalar(t, "s_cmp_le_u32", [](u32 a, u32 b) { return a <= b; });
  scalar(t, "s_cmp_eq_u64", [](u64 a, u64 b) { return a == b; });
  scalar(t, "s_cmp_lg_u64", [](u64 a, u64 b) { return a != b; });
  scalar(t, "s_bitcmp0_b32", [](u32 a, u32 b) { return !(a >> (b & 31) & 1); });
  scalar(t, "s_bitcmp1_b32", [](u32 a, u32 b) { return (a >> (b & 31) & 1) != 0; });
  scalar(t, "s_bitcmp0_b64", [](u64 a, u32 b) { return !(a >> (b & 63) & 1); });
  scalar(t, "s_bitcmp1_b64", [](u64 a, u32 b) { return (a >> (b & 63) & 1) != 0; });

  scalar_immediate(t, "s_cmpk_eq_i32", [](u32 a, i16 k) { return static_cast<i32>(a) == k; });
  scalar_immediate(t, "s_cmpk_lg_i32", [](u32 a, i16 k) { return static_cast<i32>(a) != k; });
  scalar_immediate(t, "s_cmpk_gt_i32", [](u32 a, i16 k) { return static_cast<i32>(a) > k; });
  scalar_immediate(t, "s_cmpk_ge_i32", [](u32 a, i16 k) { return static_cast<i32>(a) >= k; });
  scalar_immediate(t, "s_cmpk_lt_i32", [](u32 a, i16 k) { return static_cast<i32>(a) < k; });
  scalar_immediate(t, "s_cmpk_le_i32", [](u32 a, i16 k) { return static_cast<i32>(a) <= k; });
  scalar_immediate(t, "s_cmpk_eq_u32", [](u32 a, i16 k) { return a == zero_extended(k); });
  scalar_immediate(t, "s_cmpk_lg_u32", [](u32 a, i16 k) { return a != zero_extended(k); });
  scalar_immediate(t, "s_cmpk_gt_u32", [](u32 a, i16 k) { return a > zero_extended(k); });
  scalar_immediate(t, "s_cmpk_ge_u32", [](u32 a, i16 k) { return a >= zero_extended(k); });
  scalar_immediate(t, "s_cmpk_lt_u32", [](u32 a, i16 k) { return a < zero_extended(k); });
  scalar_immediate(t, "s_cmpk_le_u32", [](u32 a, i16 k) { return a <= zero_extended(k); });
}

}  // namespace amd_gpu
