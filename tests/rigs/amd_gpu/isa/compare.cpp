// VOPC: comparisons of all lanes into a mask; v_cmpx sets EXEC too. Inactive lanes give 0.
// Source: AMD Instinct MI300 ISA, "VOPC Instructions".
#include "lanes.h"

namespace amd_gpu {
namespace {

// How two numbers can lie; a relation is the set of those that it holds for.
enum Order : u32 { less = 1, equal = 2, greater = 4, unordered = 8 };
constexpr u32 sets_exec = 1;  // v_cmpx

void put_flags(Wave& wave, const Instruction& in, u64 flags) {
  const u64 mask = flags & wave.exec();
  put_mask(wave, in.operand(0), mask);
  if (in.detail & sets_exec) wave.set_exec(mask);
}

// Of single numbers, or of vectors of them.
template <u32 relation, class T>
auto holds(const T& a, const T& b) {
  if constexpr (relation == less) return a < b;
  if constexpr (relation == equal) return a == b;
  if constexpr (relation == greater) return a > b;
  if constexpr (relation == (less | equal)) return a <= b;
  if constexpr (relation == (greater | equal)) return a >= b;
  if constexpr (relation == (less | greater)) return (a < b) | (a > b);
  if constexpr (relation == (less | equal | greater)) return (a <= b) | (a > b);
}

// Operands: mask, two sources. `orders` holds if one of its four does, or if the others don't.
template <class T, u32 orders>
void compare(Wave& wave, const Instruction& in) {
  constexpr bool opposite = orders & unordered;
  constexpr u32 relation = opposite ? ~orders & (less | equal | greater) : orders;
  Lanes<T> room_a, room_b;
  u64 mask = 0;
  if constexpr (relation == 0) {
  } else if constexpr (sizeof(T) == 4) {
    const Rows<T> a = rows_of(wave, in, 1, 0, room_a), b = rows_of(wave, in, 2, 1, room_b);
    for (unsigned r = 0; r < rows; r++)
      mask |= mask_of(holds<relation>(sixteen_at(a[r]), sixteen_at(b[r]))) << r * sixteen;
  } else {
    const T* a = source<T>(wave, in, 1, 0, room_a);
    const T* b = source<T>(wave, in, 2, 1, room_b);
    Lanes<u8> flags;
    for (unsigned l = 0; l < lanes; l++) flags[l] = holds<relation>(a[l], b[l]);
    mask = mask_of(flags);
  }
  put_flags(wave, in, opposite ? ~mask : mask);
}

template <class T, u32 orders>
void add(Table& table, const std::string& type, const char* relation) {
  table.add(std::string("v_cmp_") + relation + "_" + type, compare<T, orders>);
  table.add(std::string("v_cmpx_") + relation + "_" + type,
            Entry{.execute = compare<T, orders>, .detail = sets_exec});
}

template <class T>
void add_ordered(Table& t, const char* type) {
  add<T, 0>(t, type, "f");
  add<T, less>(t, type, "lt");
  add<T, equal>(t, type, "eq");
  add<T, less | equal>(t, type, "le");
  add<T, greater>(t, type, "gt");
  add<T, greater | equal>(t, type, "ge");
}

template <class T>
void add_integer(Table& t, const char* type) {
  add_ordered<T>(t, type);
  add<T, less | greater>(t, type, "ne");
  add<T, less | equal | greater | unordered>(t, type, "t");
}

// "n" is the opposite, which holds for a NaN.
template <class T>
void add_real(Table& t, const char* type) {
  add_ordered<T>(t, type);
  add<T, less | greater>(t, type, "lg");
  add<T, less | equal | greater>(t, type, "o");
  add<T, unordered>(t, type, "u");
  add<T, less | unordered>(t, type, "nge");
  add<T, equal | unordered>(t, type, "nlg");
  add<T, less | equal | unordered>(t, type, "ngt");
  add<T, greater | unordered>(t, type, "nle");
  add<T, less | greater | unordered>(t, type, "neq");
  add<T, equal | greater | unordered>(t, type, "nlt");
  add<T, less | equal | greater | unordered>(t, type, "tru");
}

// Bits of a class mask, from 0: signaling NaN, quiet NaN, then -inf, -normal, -denormal, -0, +0, +denormal,
// +normal, +inf.
template <class T>
unsigned class_bit(T value) {
  using Bits = std::conditional_t<sizeof(T) == 8, u64, std::conditional_t<sizeof(T) == 4, u32, u16>>;
  constexpr int mantissa_bits = sizeof(T) == 8 ? 52 : sizeof(T) == 4 ? 23 : 10;
  const Bits bits = as<Bits>(value), mantissa = bits & ((Bits{1} << mantissa_bits) - 1);
  const unsigned highest = (1u << (8 * sizeof(T) - 1 - mantissa_bits)) - 1;
  const unsigned exponent = static_cast<unsigned>(bits >> mantissa_bits) & highest;
  const bool negative = bits >> (8 * sizeof(T) - 1) & 1;
  if (exponent == highest && mantissa) return mantissa >> (mantissa_bits - 1) & 1 ? 1 : 0;
  const unsigned magnitude = exponent == highest ? 3 : exponent ? 2 : mantissa ? 1 : 0;
  return negative ? 5 - magnitude : 6 + magnitude;
}

template <class T>
void compare_class(Wave& wave, const Instruction& in) {
  Lanes<T> room_a;
  Lanes<u32> room_b;
  Lanes<u8> flags;
  const T* value = source<T>(wave, in, 1, 0, room_a);
  const u32* classes = source<u32>(wave, in, 2, 1, room_b);
  for (unsigned l = 0; l < lanes; l++) flags[l] = classes[l] >> class_bit(value[l]) & 1;
  put_flags(wave, in, mask_of(flags));
}

template <class T>
void add_class(Table& t, const std::string& type) {
  t.add("v_cmp_class_" + type, compare_class<T>);
  t.add("v_cmpx_class_" + type, Entry{.execute = compare_class<T>, .detail = sets_exec});
}

}  // namespace

void add_compare(Table& t) {
  add_real<f16>(t, "f16");
  add_real<f32>(t, "f32");
  add_real<f64>(t, "f64");
  add_integer<i16>(t, "i16");
  add_integer<u16>(t, "u16");
  add_integer<i32>(t, "i32");
  add_integer<u32>(t, "u32");
  add_integer<i64>(t, "i64");
  add_integer<u64>(t, "u64");
  add_class<f16>(t, "f16");
  add_class<f32>(t, "f32");
  add_class<f64>(t, "f64");
}

}  // namespace amd_gpu
