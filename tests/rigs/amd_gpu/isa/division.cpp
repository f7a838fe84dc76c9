// The steps that divisions are made of: scaling away from overflow, the last rounding, special cases.
// Source: AMD Instinct MI300 ISA, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP; RDNA4 ISA for both scales of
// V_DIV_FMAS.
#include "lanes.h"

namespace amd_gpu {
namespace {

template <class T>
struct Format;
template <>
struct Format<f32> {
  static constexpr int far = 96, scale = 64, tiny = 23, least = -150, bias = 127, specials = 255;
  static int exponent(f32 value) { return static_cast<int>(as<u32>(value) >> 23 & 0xff); }
};
template <>
struct Format<f64> {
  static constexpr int far = 768, scale = 128, tiny = 53, least = -1075, bias = 1023, specials = 2047;
  static int exponent(f64 value) { return static_cast<int>(as<u64>(value) >> 52 & 0x7ff); }
};

template <class T>
bool is_denormal(T value) {
  return value != 0 && Format<T>::exponent(value) == 0;
}

template <class T>
struct Scaled {
  T value;
  bool scale_result;
};

// `value` is the denominator or the numerator, and gets the power of two that the quotient needs.
template <class T>
Scaled<T> scale(T value, T denominator, T numerator) {
  using F = Format<T>;
  const bool is_denominator = value == denominator, is_numerator = value == numerator;
  if (numerator == 0 || denominator == 0) return {std::numeric_limits<T>::quiet_NaN(), false};
  const bool tiny_inverse = is_denormal(static_cast<T>(1 / denominator));
  const bool tiny_quotient = is_denormal(static_cast<T>(numerator / denominator));
  if (F::exponent(numerator) - F::exponent(denominator) >= F::far) {
    return {is_denominator ? std::ldexp(value, F::scale) : value, true};
  }
  if (is_denormal(denominator)) return {std::ldexp(value, F::scale), false};
  if (tiny_inverse && tiny_quotient) return {is_denominator ? std::ldexp(value, -F::scale) : value, true};
  if (tiny_inverse) return {std::ldexp(value, -F::scale), false};
  if (tiny_quotient) return {is_numerator ? std::ldexp(value, F::scale) : value, true};
  if (F::exponent(numerator) <= F::tiny) return {std::ldexp(value, F::scale), false};
  return {value, false};
}

// Whether neither side of any active lane is near the ends of the exponents: then nothing is scaled, and no
// case is special.
bool are_ordinary(const Rows<f32>& denominator, const Rows<f32>& numerator, u64 exec) {
  u64 ordinary = 0;
  for (unsigned r = 0; r < rows; r++) {
    const auto &d = sixteen_at(reinterpret_cast<const u32*>(denominator[r])),
               &n = sixteen_at(reinterpret_cast<const u32*>(numerator[r]));
    ordinary |= mask_of(((d >> 23 & 0xff) - 80 < 95) & ((n >> 23 & 0xff) - 80 < 95)) << r * sixteen;
  }
  return (ordinary & exec) == exec;
}

// Operands: result, mask, value, denominator, numerator.
bool is_not_scaled(Wave& wave, const Instruction& in) {
  Lanes<f32> room_a, room_b, room_c;
  const Rows<f32> value = plain_rows(wave, in.operand(2), room_a);
  const u64 exec = wave.exec();
  if (!are_ordinary(plain_rows(wave, in.operand(3), room_b), plain_rows(wave, in.operand(4), room_c), exec))
    return false;
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned r = 0; r < rows; r++)
    store_sixteen(to + r * sixteen, sixteen_at(reinterpret_cast<const u32*>(value[r])), exec, r * sixteen);
  put_mask(wave, in.operand(1), 0);
  return true;
}

template <class T>
void div_scale(Wave& wave, const Instruction& in) {
  if (sizeof(T) == 4 && in.plain && is_not_scaled(wave, in)) return;
  Lanes<T> room_a, room_b, room_c, results;
  Lanes<u8> flags;
  const T* value = source<T>(wave, in, 2, 0, room_a);
  const T* denominator = source<T>(wave, in, 3, 1, room_b);
  const T* numerator = source<T>(wave, in, 4, 2, room_c);
  for (unsigned l = 0; l < lanes; l++) {
    const Scaled<T> scaled = scale(value[l], denominator[l], numerator[l]);
    results[l] = scaled.value;
    flags[l] = scaled.scale_result;
  }
  const u64 exec = wave.exec();
  put(wave, in, 0, results);
  put_mask(wave, in.operand(1), mask_of(flags) & exec);
}

// fma, scaled back where VCC says that div_scale scaled one of both sides.
template <class T>
void div_fmas(Wave& wave, const Instruction& in) {
  Lanes<T> room_a, room_b, room_c, results;
  if constexpr (sizeof(T) == 4) {
    if (in.plain && !wave.vcc() && wave.exec() == ~u64{0})
      return run_in_place<decltype([](f32 a, f32 b, f32 c) { return std::fma(a, b, c); })>(
          wave, in, std::make_index_sequence<3>{});
  }
  const T* a = source<T>(wave, in, 1, 0, room_a);
  const T* b = source<T>(wave, in, 2, 1, room_b);
  const T* c = source<T>(wave, in, 3, 2, room_c);
  const u64 vcc = wave.vcc();
  if ((vcc & wave.exec()) == 0) {
    for (unsigned l = 0; l < lanes; l++) results[l] = std::fma(a[l], b[l], c[l]);
    return put(wave, in, 0, results);
  }
  for (unsigned l = 0; l < lanes; l++) {
    if (!(vcc >> l & 1)) {
      results[l] = std::fma(a[l], b[l], c[l]);
      continue;
    }
    // One rounding, of the scaled sum: it may be a denormal.
    using Wide = std::conditional_t<sizeof(T) == 4, f64, long double>;
    const int by = Format<T>::exponent(c[l]) > Format<T>::bias ? Format<T>::scale : -Format<T>::scale;
    results[l] = static_cast<T>(std::ldexp(std::fma(Wide{a[l]}, Wide{b[l]}, Wide{c[l]}), by));
  }
  put(wave, in, 0, results);
}

template <class T>
T fixed(T quotient, T denominator, T numerator) {
  using F = Format<T>;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T sign = std::signbit(denominator) != std::signbit(numerator) ? T(-1) : T(1);
  if (numerator != numerator) return numerator + 0;
  if (denominator != denominator) return denominator + 0;
  if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator))) {
    return -std::numeric_limits<T>::quiet_NaN();
  }
  if (denominator == 0 || std::isinf(numerator)) return std::copysign(infinity, sign);
  if (std::isinf(denominator) || numerator == 0) return std::copysign(T(0), sign);
  const int distance = F::exponent(numerator) - F::exponent(denominator);
  if (distance < F::least) return std::copysign(T(0), sign);
  if (distance > F::specials - F::bias + 1) return std::copysign(infinity, sign);
  return std::copysign(quotient, sign);
}

// The quotient of ordinary numbers, with their sign.
bool is_fixed(Wave& wave, const Instruction& in) {
  Lanes<f32> room_a, room_b, room_c;
  const Rows<f32> quotient = plain_rows(wave, in.operand(1), room_a),
                  denominator = plain_rows(wave, in.operand(2), room_b),
                  numerator = plain_rows(wave, in.operand(3), room_c);
  const u64 exec = wave.exec();
  if (!are_ordinary(denominator, numerator, exec)) return false;
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned r = 0; r < rows; r++) {
    const auto words = [&](const Rows<f32>& from) {
      return sixteen_at(reinterpret_cast<const u32*>(from[r]));
    };
    const Sixteen<u32> sign = words(denominator) ^ words(numerator);
    store_sixteen(to + r * sixteen, (words(quotient) & 0x7fffffff) | (sign & 0x80000000), exec, r * sixteen);
  }
  return true;
}

template <class T>
void div_fixup(Wave& wave, const Instruction& in) {
  if (sizeof(T) == 4 && in.plain && is_fixed(wave, in)) return;
  Lanes<T> room_a, room_b, room_c, results;
  const T* quotient = source<T>(wave, in, 1, 0, room_a);
  const T* denominator = source<T>(wave, in, 2, 1, room_b);
  const T* numerator = source<T>(wave, in, 3, 2, room_c);
  for (unsigned l = 0; l < lanes; l++) results[l] = fixed(quotient[l], denominator[l], numerator[l]);
  put(wave, in, 0, results);
}

f16 fixed_half(f16 quotient, f16 denominator, f16 numerator) {
  const f32 q = static_cast<f32>(quotient), d = static_cast<f32>(denominator),
            n = static_cast<f32>(numerator);
  return static_cast<f16>(fixed(q, d, n));
}

}  // namespace

void add_division(Table& t) {
  t.add("v_div_scale_f32", div_scale<f32>);
  t.add("v_div_scale_f64", div_scale<f64>);
  t.add("v_div_fmas_f32", Entry{.execute = div_fmas<f32>, .clamps = true});
  t.add("v_div_fmas_f64", Entry{.execute = div_fmas<f64>, .clamps = true});
  t.add("v_div_fixup_f32", Entry{.execute = div_fixup<f32>, .clamps = true});
  t.add("v_div_fixup_f64", Entry{.execute = div_fixup<f64>, .clamps = true});
  vector(t, "v_div_fixup_f16", [](f16 q, f16 d, f16 n) { return fixed_half(q, d, n); });
}

}  // namespace amd_gpu
