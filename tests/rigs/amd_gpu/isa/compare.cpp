// VOPC: comparisons of all lanes into a mask; v_cmpx sets EXEC too. Inactive lanes give 0.
// Source: AMD Instinct MI300 ISA, "VOPC Instructions".
#include "lanes.h"

namespace amd_gpu {
namespace {

// How two numbers can lie; a relation is the set of those that it holds for.
enum Order : u32 { less = 1, equal = 2, greater = 4, unordered = 8 };
constexpr u32 sets_exec = 16;  // v_cmpx

template <class Flags>
void put_flags(Wave& wave, const Instruction& in, const Flags& flags) {
  const u64 mask = mask_of(flags) & wave.exec();
  put_mask(wave, in.operand(0), mask);
  if (in.detail & sets_exec) wave.set_exec(mask);
}

// Operands: mask, two sources.
template <class T>
void compare(Wave& wave, const Instruction& in) {
  Lanes<T> room_a, room_b;
  Lanes<std::conditional_t<sizeof(T) == 4, u32, u8>> flags;  // as wide as T, to be vectorised
  const T* a = source<T>(wave, in, 1, 0, room_a);
  const T* b = source<T>(wave, in, 2, 1, room_b);
  const u32 relation = in.detail;
  for (unsigned l = 0; l < lanes; l++) {
    const u32 order = a[l] < b[l] ? less : a[l] == b[l] ? equal : a[l] > b[l] ? greater : unordered;
    flags[l] = (order & relation) != 0;
  }
  put_flags(wave, in, flags);
}

template <class T>
void add(Table& table, const std::string& type, const char* relation, u32 orders) {
  table.add(std::string("v_cmp_") + relation + "_" + type, Entry{.execute = compare<T>, .detail = orders});
  table.add(std::string("v_cmpx_") + relation + "_" + type,
            Entry{.execute = compare<T>, .detail = orders | sets_exec});
}

template <class T>
void add_ordered(Table& t, const char* type) {
  add<T>(t, type, "f", 0);
  add<T>(t, type, "lt", less);
  add<T>(t, type, "eq", equal);
  add<T>(t, type, "le", less | equal);
  add<T>(t, type, "gt", greater);
  add<T>(t, type, "ge", greater | equal);
}

template <class T>
void add_integer(Table& t, const char* type) {
  add_ordered<T>(t, type);
  add<T>(t, type, "ne", less | greater);
  add<T>(t, type, "t", less | equal | greater);
}

// "n" is the opposite, which holds for a NaN.
template <class T>
void add_real(Table& t, const char* type) {
  add_ordered<T>(t, type);
  add<T>(t, type, "lg", less | greater);
  add<T>(t, type, "o", less | equal | greater);
  add<T>(t, type, "u", unordered);
  add<T>(t, type, "nge", less | unordered);
  add<T>(t, type, "nlg", equal | unordered);
  add<T>(t, type, "ngt", less | equal | unordered);
  add<T>(t, type, "nle", greater | unordered);
  add<T>(t, type, "neq", less | greater | unordered);
  add<T>(t, type, "nlt", equal | greater | unordered);
  add<T>(t, type, "tru", less | equal | greater | unordered);
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
  put_flags(wave, in, flags);
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
