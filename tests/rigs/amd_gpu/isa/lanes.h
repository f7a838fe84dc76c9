// Vector instructions from one lane's arithmetic: vector(table, "v_add_f32", [](f32 a, f32 b) { return a + b;
// }). The lambda's types say how sources are read and the result written. It runs over all 64 lanes in plain
// arrays, for the compiler to vectorise, and only what is written obeys EXEC.
#ifndef KERNCAP_AMD_GPU_ISA_LANES_H
#define KERNCAP_AMD_GPU_ISA_LANES_H

#include <immintrin.h>

#include <tuple>
#include <utility>

#include "wave.h"

namespace amd_gpu {

template <class T>
struct alignas(64) Lanes {
  T lane[lanes];
  T& operator[](unsigned l) { return lane[l]; }
  const T& operator[](unsigned l) const { return lane[l]; }
};

// Sixteen lanes, in one of the host's registers or in several.
template <class T>
struct SixteenOf {
  typedef T type __attribute__((vector_size(64), aligned(4), may_alias));
};
template <class T>
using Sixteen = typename SixteenOf<T>::type;
constexpr unsigned sixteen = 16, rows = lanes / sixteen;

template <class T>
const Sixteen<T>& sixteen_at(const T* from) {
  return *reinterpret_cast<const Sixteen<T>*>(from);
}

// Bit k is whether flag k is -1; what a comparison makes is -1 or 0.
inline u64 mask_of(const Sixteen<i32>& flags) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(flags));
#else
  u64 mask = 0;
  for (unsigned k = 0; k < sixteen; k++) mask |= u64{flags[k] != 0} << k;
  return mask;
#endif
}

inline bool differ(const Sixteen<u32>& a, const Sixteen<u32>& b) {
#if defined(__AVX512F__)
  return _mm512_cmpneq_epu32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
#else
  return mask_of(a != b);
#endif
}

// And back, of a mask's bits from `first` on.
inline Sixteen<i32> flags_of(u64 mask, unsigned first) {
#if defined(__AVX512F__)
  return reinterpret_cast<Sixteen<i32>>(_mm512_movm_epi32(static_cast<__mmask16>(mask >> first)));
#else
  constexpr Sixteen<u32> bits = {1,      1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
  return (bits & static_cast<u32>(mask >> first)) != 0;
#endif
}

// Those of 16 lanes from `first` on that are in the mask.
inline void store_sixteen(u32* to, const Sixteen<u32>& values, u64 mask, unsigned first) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(mask >> first), reinterpret_cast<__m512i>(values));
#else
  auto& old = *reinterpret_cast<Sixteen<u32>*>(to);
  old = flags_of(mask, first) ? values : old;
#endif
}

template <class T>
constexpr bool is_real = std::is_same_v<T, f16> || std::is_same_v<T, f32> || std::is_same_v<T, f64>;

// --- sources ---------------------------------------------------------------------------------------------

// A constant or scalar operand as a lane of type T sees it. A literal fills the upper half of an f64.
template <class T>
T uniform(const Wave& wave, const Operand& operand) {
  if constexpr (sizeof(T) == 8) {
    if (is_real<T> && operand.literal) return as<T>(static_cast<u64>(operand.constant->integer) << 32);
    return as<T>(wave.get64(operand));
  } else if constexpr (sizeof(T) == 4) {
    return as<T>(wave.get32(operand));
  } else {
    if (operand.kind == Operand::Kind::real) return as<T>(static_cast<f16>(operand.constant->real));
    return as<T>(static_cast<u16>(wave.get32(operand)));
  }
}

// DPP: the lane that each lane reads, and whether there is one (it must be active too).
struct Moved {
  u8 from[lanes];
  u64 valid;
};
Moved moved_lanes(const Instruction& instruction, u64 exec);
// The lanes that a DPP instruction may write.
u64 writable_lanes(const Instruction& instruction, u64 exec);
// SDWA: the selected part of each lane, extended to 32 bits.
void select_part(Part part, bool sign_extend, const u32* from, u32* to);

// Registers with DPP or SDWA applied; `slot` counts the sources of the instruction from 0.
const u32* rearranged(const Wave& wave, const Instruction& instruction, const Operand& operand, unsigned slot,
                      const u32* from, Lanes<u32>& room);

inline const u32* words_of(const Wave& wave, const Instruction& instruction, const Operand& operand,
                           unsigned slot, Lanes<u32>& room) {
  const u32* from;
  if (operand.is_vector()) {
    from = wave.vector[operand.index];
  } else if (operand.is_constant()) {
    from = operand.constant->row;
  } else {
    const u32 same = wave.get32(operand);
    for (unsigned l = 0; l < lanes; l++) room[l] = same;
    from = room.lane;
  }
  return instruction.dpp || instruction.sdwa ? rearranged(wave, instruction, operand, slot, from, room)
                                             : from;
}

// Absolute value and negation, which are bits of real numbers.
template <class T, unsigned count = lanes>
[[gnu::noinline]] void copy_with_signs(const Operand& operand, const T* from, T* to) {
  using Bits = std::conditional_t<sizeof(T) == 8, u64, std::conditional_t<sizeof(T) == 4, u32, u16>>;
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1));
  const Bits kept = operand.absolute ? static_cast<Bits>(~sign) : static_cast<Bits>(~Bits{0});
  const Bits flipped = operand.negate ? sign : Bits{0};
#pragma GCC ivdep
  for (unsigned l = 0; l < count; l++) to[l] = as<T>(static_cast<Bits>((as<Bits>(from[l]) & kept) ^ flipped));
}

// Source `slot` (operand `which`) for all lanes; `room` is used where it is not a plain register.
template <class T>
const T* any_source(const Wave& wave, const Instruction& instruction, unsigned which, unsigned slot,
                    Lanes<T>& room);

// The same where the instruction is plain, of 32 or 64 bits.
// A call of its own would be a quarter of the instruction.
template <class T>
[[gnu::always_inline]] inline const T* plain_source(const Wave& wave, const Operand& operand,
                                                    Lanes<T>& room) {
  const T* from = room.lane;
  if (operand.is_vector()) {
    const u32* words = wave.vector[operand.index];
    if constexpr (sizeof(T) == 4)
      from = reinterpret_cast<const T*>(words);
    else
      for (unsigned l = 0; l < lanes; l++) room[l] = as<T>(join(words[l], words[lanes + l]));
  } else if (sizeof(T) == 4 && operand.is_constant()) {
    from = reinterpret_cast<const T*>(operand.constant->row);
  } else {
    const T same = uniform<T>(wave, operand);
    for (unsigned l = 0; l < lanes; l++) room[l] = same;
  }
  if constexpr (is_real<T>) {
    if (operand.negate || operand.absolute) {
      copy_with_signs(operand, from, room.lane);
      return room.lane;
    }
  }
  return from;
}

template <class T>
[[gnu::always_inline]] inline const T* source(const Wave& wave, const Instruction& instruction,
                                              unsigned which, unsigned slot, Lanes<T>& room) {
  if constexpr (sizeof(T) >= 4) {
    if (!instruction.dpp && !instruction.sdwa) return plain_source(wave, instruction.operand(which), room);
  }
  return any_source(wave, instruction, which, slot, room);
}

// A source of words in rows of sixteen lanes: of a number or a scalar, one row that counts for all.
template <class T>
struct Rows {
  const T* at;
  unsigned step;
  const T* operator[](unsigned row) const { return at + row * step; }
};

template <class T>
[[gnu::noinline]] Rows<T> with_signs(const Operand& operand, Rows<T> from, Lanes<T>& room) {
  for (unsigned r = 0; r < (from.step ? rows : 1); r++)
    copy_with_signs<T, sixteen>(operand, from[r], &room[r * sixteen]);
  return {room.lane, from.step};
}

// An operand without modifiers; of a register, the one that is `behind` registers further on.
template <class T>
[[gnu::always_inline]] inline Rows<T> plain_rows(const Wave& wave, const Operand& operand, Lanes<T>& room,
                                                 unsigned behind = 0) {
  Rows<T> found{room.lane, 0};
  if (operand.is_vector()) [[likely]] {
    found = {reinterpret_cast<const T*>(wave.vector[operand.index + behind]), sixteen};
  } else if (operand.is_constant()) {
    found.at = reinterpret_cast<const T*>(operand.constant->row);
  } else {
    const u32 same = operand.is_scalar() ? wave.read_scalar(static_cast<u16>(operand.index + behind)) : 0;
    *reinterpret_cast<Sixteen<u32>*>(room.lane) = Sixteen<u32>{} + same;
  }
  if constexpr (is_real<T>) {
    if (operand.negate || operand.absolute) [[unlikely]]
      return with_signs(operand, found, room);
  }
  return found;
}

// As source() does.
template <class T>
[[gnu::always_inline]] inline Rows<T> rows_of(const Wave& wave, const Instruction& instruction,
                                              unsigned which, unsigned slot, Lanes<T>& room) {
  if (instruction.plain) [[likely]]
    return plain_rows(wave, instruction.operand(which), room);
  return {source<T>(wave, instruction, which, slot, room), sixteen};
}

// --- results ---------------------------------------------------------------------------------------------

// Eight lanes. Explicit where the compiler would call memcpy, or take one lane after the other.
using Eight = u32 __attribute__((vector_size(32), aligned(4), may_alias));

inline void copy_row(u32* to, const u32* from) {
  for (unsigned l = 0; l < lanes; l += 8)
    *reinterpret_cast<Eight*>(to + l) = *reinterpret_cast<const Eight*>(from + l);
}

// A word for each lane, from its own number of bytes behind `base`, below 2 GiB; `more` counts for all.
inline void gather(const u8* base, const u32* from, u32 more, u32* to) {
  base += more;
#if defined(__AVX512F__)
  const __m512i side_by_side = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
  for (unsigned l = 0; l < lanes; l += 16) {
    // Rows of a tile lie side by side, or are one word for all.
    const __m512i at = _mm512_loadu_si512(from + l),
                  behind = _mm512_sub_epi32(at, _mm512_set1_epi32(static_cast<i32>(from[l])));
    i32 first;
    std::memcpy(&first, base + from[l], sizeof first);
    __m512i found = _mm512_set1_epi32(first);
    if (_mm512_cmpneq_epi32_mask(behind, side_by_side) == 0)
      found = _mm512_loadu_si512(base + from[l]);
    else if (_mm512_test_epi32_mask(behind, behind))
      found = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, at, base, 1);
    _mm512_storeu_si512(to + l, found);
  }
#else
  for (unsigned l = 0; l < lanes; l++) std::memcpy(to + l, base + from[l], 4);
#endif
}

// So many words for each lane, from its number of bytes on.
template <unsigned words>
void gather_rows(const u8* base, const u32* from, Lanes<u32>* rows) {
  if constexpr (words == 4) {
    for (unsigned l = 0; l < lanes; l += 4) {
      __m128 four[4];
      for (unsigned k = 0; k < 4; k++) std::memcpy(&four[k], base + from[l + k], sizeof four[k]);
      _MM_TRANSPOSE4_PS(four[0], four[1], four[2], four[3]);
      for (unsigned k = 0; k < 4; k++) std::memcpy(&rows[k][l], &four[k], sizeof four[k]);
    }
  } else {
    for (unsigned k = 0; k < words; k++) gather(base, from, 4 * k, rows[k].lane);
  }
}

// The halves of words that begin at bit `shift`, as numbers.
inline void halves_to_floats(const u32* words, unsigned shift, f32* to) {
#if defined(__AVX512F__)
  constexpr __mmask16 every = 0xffff;  // the plain forms draw a warning from GCC 12's own headers
  const __m128i by = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (unsigned l = 0; l < lanes; l += 16) {
    const __m512i halves = _mm512_maskz_srl_epi32(every, _mm512_loadu_si512(words + l), by);
    _mm512_storeu_ps(to + l, _mm512_maskz_cvtph_ps(every, _mm512_maskz_cvtepi32_epi16(every, halves)));
  }
#else
  for (unsigned l = 0; l < lanes; l++) to[l] = half_to_float(static_cast<u16>(words[l] >> shift));
#endif
}

// Numbers as halves, in the lower half of each word.
inline void floats_to_halves(const f32* from, u32* words) {
#if defined(__AVX512F__)
  constexpr __mmask16 every = 0xffff;
  for (unsigned l = 0; l < lanes; l += 16) {
    const __m256i halves = _mm512_maskz_cvtps_ph(every, _mm512_loadu_ps(from + l), _MM_FROUND_CUR_DIRECTION);
    _mm512_storeu_si512(words + l, _mm512_maskz_cvtepu16_epi32(every, halves));
  }
#else
  for (unsigned l = 0; l < lanes; l++) words[l] = float_to_half(from[l]);
#endif
}

// The highest of all lanes. Explicit, as the compiler takes one after the other.
inline u32 highest_of(const u32* values) {
  Eight most = *reinterpret_cast<const Eight*>(values);
  for (unsigned l = 8; l < lanes; l += 8) {
    const Eight next = *reinterpret_cast<const Eight*>(values + l);
    most = next > most ? next : most;
  }
  u32 highest = 0;
  for (unsigned l = 0; l < 8; l++) highest = most[l] > highest ? most[l] : highest;
  return highest;
}

#if defined(__AVX512F__)
inline __mmask16 sixteen_of(u64 mask, unsigned first) {
  return static_cast<__mmask16>(mask >> first);
}
#endif

inline void merge(u32* to, const u32* from, u64 mask) {
  if (mask == ~u64{0}) return copy_row(to, from);
#if defined(__AVX512F__)
  for (unsigned l = 0; l < lanes; l += 16)
    _mm512_mask_storeu_epi32(to + l, sixteen_of(mask, l), _mm512_loadu_si512(from + l));
#else
  const Eight bits = {1, 2, 4, 8, 16, 32, 64, 128};
  for (unsigned l = 0; l < lanes; l += 8) {
    const auto chosen = reinterpret_cast<Eight>((bits & static_cast<u32>(mask >> l)) != 0);
    auto& old = *reinterpret_cast<Eight*>(to + l);
    old = (chosen & *reinterpret_cast<const Eight*>(from + l)) | (~chosen & old);
  }
#endif
}

// The output modifiers of real numbers.
template <class T>
void scale_and_clamp(const Wave& wave, const Instruction& instruction, T* values);

// How a 16-bit result treats the other half of its register. gfx9 clears the upper half, but instructions
// with three sources, and those that write the upper half, keep the other one. Source: LLVM,
// GCNSubtarget::zeroesHigh16BitsOfDest.
enum class OtherHalf { cleared, kept };

// Writes results to operand `which`: active lanes alone, with DPP's, SDWA's and op_sel's ways of writing.
// T is a number of 16, 32 or 64 bits, here and for source().
template <class T>
void put_any(Wave& wave, const Instruction& instruction, unsigned which, Lanes<T>& values, OtherHalf other);

template <class T>
void put(Wave& wave, const Instruction& instruction, unsigned which, Lanes<T>& values,
         OtherHalf other = OtherHalf::cleared) {
  if (sizeof(T) == 2 || !instruction.plain) return put_any(wave, instruction, which, values, other);
  u32* to = wave.vector[instruction.operand(which).index];
  if constexpr (sizeof(T) == 4) merge(to, reinterpret_cast<const u32*>(values.lane), wave.exec());
  if constexpr (sizeof(T) == 8) {
    Lanes<u32> low, high;
    for (unsigned l = 0; l < lanes; l++)
      low[l] = low32(as<u64>(values[l])), high[l] = high32(as<u64>(values[l]));
    merge(to, low.lane, wave.exec());
    merge(to + lanes, high.lane, wave.exec());
  }
}

// --- instructions from lambdas ---------------------------------------------------------------------------

// Lanes that a tuple does not fill with zeros.
template <class T>
struct Room {
  Room() {}
  Lanes<T> values;
};

template <class F>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<A...>;
  static constexpr unsigned count = sizeof...(A);
};
template <class F>
using SignatureOf = Signature<decltype(&F::operator())>;

// Nothing but words, and all lanes are written: in place. Where F takes one more, that is what was there.
template <class F, size_t... slot>
[[gnu::always_inline]] inline void run_in_place(Wave& wave, const Instruction& instruction,
                                                std::index_sequence<slot...>) {
  using Signature = SignatureOf<F>;
  std::tuple<Room<std::tuple_element_t<slot, typename Signature::Arguments>>...> rooms;
  const std::tuple from{plain_rows(wave, instruction.operand(1 + slot), std::get<slot>(rooms).values)...};
  auto* results = reinterpret_cast<typename Signature::Result*>(wave.vector[instruction.operand(0).index]);
  for (unsigned r = 0; r < rows; r++, results += sixteen) {
    const std::tuple row{std::get<slot>(from)[r]...};
    // A source may be the destination, and then a lane is read before it is written. Unrolled, it would not
    // be seen that this is one row.
#pragma GCC ivdep
#pragma GCC unroll 1
    for (unsigned l = 0; l < sixteen; l++) {
      if constexpr (sizeof...(slot) < Signature::count)
        results[l] = F{}(std::get<slot>(row)[l]..., results[l]);
      else
        results[l] = F{}(std::get<slot>(row)[l]...);
    }
  }
}

template <class F, size_t... slot>
constexpr bool has_words_only(std::index_sequence<slot...>) {
  using Arguments = typename SignatureOf<F>::Arguments;
  return sizeof(typename SignatureOf<F>::Result) == 4 &&
         ((sizeof(std::tuple_element_t<slot, Arguments>) == 4) && ...);
}

template <class F, OtherHalf other, size_t... slot>
[[gnu::noinline]] void run_vector(Wave& wave, const Instruction& instruction, std::index_sequence<slot...>) {
  using Arguments = typename SignatureOf<F>::Arguments;
  std::tuple<Room<std::tuple_element_t<slot, Arguments>>...> rooms;
  const std::tuple from{source<std::tuple_element_t<slot, Arguments>>(wave, instruction, 1 + slot, slot,
                                                                      std::get<slot>(rooms).values)...};
  Lanes<typename SignatureOf<F>::Result> results;
  for (unsigned l = 0; l < lanes; l++) results[l] = F{}(std::get<slot>(from)[l]...);
  put(wave, instruction, 0, results, other);
}

template <class F, OtherHalf other>
void execute_vector(Wave& wave, const Instruction& instruction) {
  constexpr auto slots = std::make_index_sequence<SignatureOf<F>::count>{};
  if constexpr (has_words_only<F>(slots)) {
    if (instruction.plain && wave.exec() == ~u64{0}) [[likely]]
      return run_in_place<F>(wave, instruction, slots);
  }
  run_vector<F, other>(wave, instruction, slots);
}

template <class F>
constexpr Entry vector_entry() {
  using Result = typename SignatureOf<F>::Result;
  constexpr OtherHalf other = SignatureOf<F>::count >= 3 ? OtherHalf::kept : OtherHalf::cleared;
  return Entry{.execute = execute_vector<F, other>, .clamps = is_real<Result>};
}

// destination = f(sources...).
template <class F>
void vector(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic, vector_entry<F>());
}

// The same where `clamp` saturates an integer result: `saturating` is used then.
template <class F, class S>
void vector(Table& table, std::string_view mnemonic, F, S) {
  Entry entry = vector_entry<F>();
  entry.clamped = vector_entry<S>().execute;
  table.add(mnemonic, entry);
}

// A 64-bit integer in two words, which the compiler vectorises better than one that it has to join and to
// split.
struct Words {
  u32 low, high;
};
inline Words shifted(Words a, u32 by) {
  const u32 part = by & 31;
  const u32 low = a.low << part, high = a.high << part | a.low >> 1 >> (31 - part);
  return by & 32 ? Words{0, low} : Words{low, high};
}
inline Words sum_of(Words a, Words b) {
  const u32 low = a.low + b.low;
  return {low, a.high + b.high + (low < a.low)};
}

// A source of words or of pairs of them. It points into itself, and stays where it is.
template <class T>
class WordSource {
 public:
  WordSource() {}
  WordSource(const WordSource&) = delete;
  void read(const Wave& wave, const Operand& operand) {
    if (operand.is_vector()) [[likely]] {
      low_ = wave.vector[operand.index];
      high_ = low_ + lanes;
      return;
    }
    if (sizeof(T) == 4 && operand.is_constant()) {
      low_ = high_ = operand.constant->row;
      return;
    }
    const u64 same = sizeof(T) == 8 ? wave.get64(operand) : wave.get32(operand);
    std::fill_n(rooms_[0].lane, lanes, low32(same));
    if (sizeof(T) == 8) std::fill_n(rooms_[1].lane, lanes, high32(same));
    low_ = rooms_[0].lane, high_ = rooms_[1].lane;
  }
  const u32* low() const { return low_; }
  const u32* high() const { return high_; }
  static T at(const u32* low, const u32* high, unsigned l) {
    if constexpr (sizeof(T) == 8)
      return {low[l], high[l]};
    else
      return low[l];
  }

 private:
  const u32 *low_, *high_;
  Lanes<u32> rooms_[2];
};

template <class F, size_t... slot>
void run_in_words(Wave& wave, const Instruction& instruction, std::index_sequence<slot...>) {
  using Arguments = typename SignatureOf<F>::Arguments;
  std::tuple<WordSource<std::tuple_element_t<slot, Arguments>>...> from;
  (std::get<slot>(from).read(wave, instruction.operand(1 + slot)), ...);
  const u32* const low[] = {std::get<slot>(from).low()...};
  const u32* const high[] = {std::get<slot>(from).high()...};
  Lanes<u32> rooms[2];
  u32* to = wave.vector[instruction.operand(0).index];
  const u64 exec = wave.exec();
  u32* results = exec == ~u64{0} ? to : rooms[0].lane;
#pragma GCC ivdep
  for (unsigned l = 0; l < lanes; l++) {
    const Words result =
        F{}(WordSource<std::tuple_element_t<slot, Arguments>>::at(low[slot], high[slot], l)...);
    results[l] = result.low;
    results[lanes + l] = result.high;
  }
  if (results == to) return;
  merge(to, rooms[0].lane, exec);
  merge(to + lanes, rooms[1].lane, exec);
}

// Instructions of 64-bit integers that have no form with DPP, SDWA or clamp.
template <class F>
void in_words(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic, [](Wave& wave, const Instruction& instruction) {
    run_in_words<F>(wave, instruction, std::make_index_sequence<SignatureOf<F>::count>{});
  });
}

// A 16-bit instruction that keeps the other half of its destination.
template <class F>
void vector_keeping_half(Table& table, std::string_view mnemonic, F) {
  Entry entry = vector_entry<F>();
  entry.execute = execute_vector<F, OtherHalf::kept>;
  table.add(mnemonic, entry);
}

// What the destination held.
template <class T>
Lanes<T> old_values(const Wave& wave, const Operand& operand) {
  Lanes<T> values;
  for (unsigned l = 0; l < lanes; l++) {
    const u32 low = wave.vector[operand.index][l];
    if constexpr (sizeof(T) == 8) {
      values[l] = as<T>(join(low, wave.vector[operand.index + 1][l]));
    } else if constexpr (sizeof(T) == 4) {
      values[l] = as<T>(low);
    } else {
      values[l] = as<T>(static_cast<u16>(low));
    }
  }
  return values;
}

// One with three sources that clears it.
template <class F>
void vector_clearing_half(Table& table, std::string_view mnemonic, F) {
  Entry entry = vector_entry<F>();
  entry.execute = execute_vector<F, OtherHalf::cleared>;
  table.add(mnemonic, entry);
}

// Accumulating forms (v_fmac): the destination is the last source.
template <class F, size_t... slot>
[[gnu::noinline]] void run_accumulate(Wave& wave, const Instruction& instruction,
                                      std::index_sequence<slot...>) {
  using Arguments = typename SignatureOf<F>::Arguments;
  using Result = typename SignatureOf<F>::Result;
  std::tuple<Room<std::tuple_element_t<slot, Arguments>>...> rooms;
  const std::tuple from{source<std::tuple_element_t<slot, Arguments>>(wave, instruction, 1 + slot, slot,
                                                                      std::get<slot>(rooms).values)...};
  Lanes<Result> results;
  const Lanes<Result> old = old_values<Result>(wave, instruction.operand(0));
  for (unsigned l = 0; l < lanes; l++) results[l] = F{}(std::get<slot>(from)[l]..., old[l]);
  put(wave, instruction, 0, results);
}

template <class F>
void execute_accumulate(Wave& wave, const Instruction& instruction) {
  constexpr auto slots = std::make_index_sequence<SignatureOf<F>::count - 1>{};
  if constexpr (has_words_only<F>(slots)) {
    if (instruction.plain && wave.exec() == ~u64{0}) [[likely]]
      return run_in_place<F>(wave, instruction, slots);
  }
  run_accumulate<F>(wave, instruction, slots);
}

template <class F>
void accumulate(Table& table, std::string_view mnemonic, F) {
  using Result = typename SignatureOf<F>::Result;
  table.add(mnemonic, Entry{.execute = execute_accumulate<F>, .clamps = is_real<Result>});
}

// --- masks -----------------------------------------------------------------------------------------------

// Bit l is whether lane l of `flags` is not zero.
inline u64 mask_of(const Lanes<u8>& flags) {
  u64 mask = 0;
  for (unsigned group = 0; group < lanes / 8; group++) {
    u64 bytes;
    std::memcpy(&bytes, &flags.lane[group * 8], sizeof bytes);
    // Gathers the lowest bit of each byte in the top byte.
    mask |= (bytes * 0x0102040810204080) >> 56 << (group * 8);
  }
  return mask;
}

// The same for flags of 0 or 1 in 32 bits.
inline u64 mask_of(const Lanes<u32>& flags) {
  u64 mask = 0;
#if defined(__AVX512F__)
  for (unsigned l = 0; l < lanes; l += 16) {
    const __m512i sixteen = _mm512_loadu_si512(&flags.lane[l]);
    mask |= u64{_mm512_test_epi32_mask(sixteen, sixteen)} << l;
  }
#else
  for (unsigned l = 0; l < lanes; l += 8) {
#ifdef __AVX2__
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&flags.lane[l]));
    mask |= u64{static_cast<u8>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(eight, 31))))} << l;
#else
    for (unsigned k = 0; k < 8; k++) mask |= u64{flags[l + k]} << (l + k);
#endif
  }
#endif
  return mask;
}

inline void put_mask(Wave& wave, const Operand& operand, u64 mask) {
  if (operand.is_scalar()) wave.set_pair(operand.index, mask);
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_LANES_H
