// VOP3P: two results at once, in the halves of a register (16 bits) or in two registers (32 bits).
// Source: AMD Instinct MI300 ISA, "VOP3P Instructions", "Packed Math".
#include "real.h"

namespace amd_gpu {
namespace {

bool picks_upper(const Instruction& in, unsigned slot, bool upper_result) {
  return (upper_result ? in.op_sel_hi : in.op_sel) >> slot & 1;
}
bool negates(const Instruction& in, unsigned slot, bool upper_result) {
  return (upper_result ? in.negate_hi : in.negate_lo) >> slot & 1;
}

// Source `slot` for one of both results. A constant is in the lower half; floats have it as f16 there.
template <class T>
const T* packed_source(const Wave& wave, const Instruction& in, unsigned slot, bool upper_result,
                       Lanes<T>& values) {
  const Operand& operand = in.operand(1 + slot);
  const bool upper = picks_upper(in, slot, upper_result);
  if constexpr (sizeof(T) == 4) {
    Operand chosen = operand;
    if (upper && !operand.is_constant()) chosen.index++;
    auto& words = reinterpret_cast<Lanes<u32>&>(values);
    const u32* from = words_of(wave, in, chosen, slot, words);
    if (from != words.lane) {
      if (!negates(in, slot, upper_result)) return reinterpret_cast<const T*>(from);
      copy_row(words.lane, from);
    }
  } else {
    if (operand.kind == Operand::Kind::real) {
      const T same = upper ? T(0) : uniform<T>(wave, operand);
      for (unsigned l = 0; l < lanes; l++) values[l] = same;
    } else {
      Lanes<u32> room;
      const u32* from = words_of(wave, in, operand, slot, room);
      for (unsigned l = 0; l < lanes; l++) values[l] = as<T>(half_of(from[l], upper));
    }
  }
  if constexpr (is_real<T>) {
    Operand sign;
    sign.negate = negates(in, slot, upper_result);
    if (sign.negate) copy_with_signs(sign, values.lane, values.lane);
  }
  return values.lane;
}

template <class T>
void clamp_packed(const Wave& wave, const Instruction& in, Lanes<T>& values) {
  if constexpr (is_real<T>) {
    if (in.clamp) scale_and_clamp(wave, in, values.lane);
  }
}

// Of 32 bits, where all lanes are written.
template <class F, size_t... slot>
void run_packed_in_place(Wave& wave, const Instruction& in, std::index_sequence<slot...>) {
  using T = typename SignatureOf<F>::Result;
  Lanes<T> rooms[2][sizeof...(slot)];
  const auto rows_for = [&](unsigned which, bool upper) {
    return plain_rows(wave, in.operand(1 + which), rooms[upper][which], picks_upper(in, which, upper));
  };
  const Rows<T> lower[] = {rows_for(slot, false)...}, upper[] = {rows_for(slot, true)...};
  T* results = reinterpret_cast<T*>(wave.vector[in.operand(0).index]);
  for (unsigned r = 0; r < rows; r++, results += sixteen) {
    const T* const low_row[] = {lower[slot][r]...};
    const T* const high_row[] = {upper[slot][r]...};
    // Each of both may be a source of the other, and then a lane is read before it is written.
#pragma GCC ivdep
#pragma GCC unroll 1
    for (unsigned l = 0; l < sixteen; l++) {
      const T low = F{}(low_row[slot][l]...), high = F{}(high_row[slot][l]...);
      results[l] = low;
      results[lanes + l] = high;
    }
  }
}

template <class F, size_t... slot>
void run_packed(Wave& wave, const Instruction& in, std::index_sequence<slot...> slots) {
  using Arguments = typename SignatureOf<F>::Arguments;
  using T = typename SignatureOf<F>::Result;
  if constexpr (sizeof(T) == 4) {
    if (wave.exec() == ~u64{0} && !in.clamp && !in.negate_lo && !in.negate_hi) [[likely]]
      return run_packed_in_place<F>(wave, in, slots);
  }
  Lanes<T> results[2];
  for (unsigned half = 0; half < 2; half++) {
    std::tuple<Room<std::tuple_element_t<slot, Arguments>>...> rooms;
    const std::tuple sources{packed_source<std::tuple_element_t<slot, Arguments>>(
        wave, in, slot, half, std::get<slot>(rooms).values)...};
    for (unsigned l = 0; l < lanes; l++) results[half][l] = F{}(std::get<slot>(sources)[l]...);
    clamp_packed(wave, in, results[half]);
  }
  const Operand& operand = in.operand(0);
  const u64 exec = wave.exec();
  if constexpr (sizeof(T) == 4) {
    merge(wave.vector[operand.index], reinterpret_cast<const u32*>(results[0].lane), exec);
    merge(wave.vector[operand.index + 1], reinterpret_cast<const u32*>(results[1].lane), exec);
  } else {
    Lanes<u32> words;
    for (unsigned l = 0; l < lanes; l++) words[l] = pack(as<u16>(results[0][l]), as<u16>(results[1][l]));
    merge(wave.vector[operand.index], words.lane, exec);
  }
}

template <class F>
void execute_packed(Wave& wave, const Instruction& in) {
  run_packed<F>(wave, in, std::make_index_sequence<SignatureOf<F>::count>{});
}

template <class F>
void packed(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic,
            Entry{.execute = execute_packed<F>, .clamps = is_real<typename SignatureOf<F>::Result>});
}
template <class F, class S>
void packed(Table& table, std::string_view mnemonic, F, S) {
  table.add(mnemonic, Entry{.execute = execute_packed<F>, .clamped = execute_packed<S>});
}

// Two f16: arithmetic in f32, whose result is rounded to f16.
template <class F, size_t... slot>
void run_packed_halves(Wave& wave, const Instruction& in, std::index_sequence<slot...>) {
  Lanes<u32> words[2];
  for (unsigned half = 0; half < 2; half++) {
    Lanes<f32> sources[sizeof...(slot)], results;
    for (unsigned k = 0; k < sizeof...(slot); k++) {
      const Operand& operand = in.operand(1 + k);
      if (operand.is_vector()) {
        halves_to_floats(wave.vector[operand.index], picks_upper(in, k, half) ? 16 : 0, sources[k].lane);
        Operand sign;
        sign.negate = negates(in, k, half);
        copy_with_signs(sign, sources[k].lane, sources[k].lane);
      } else {
        Lanes<f16> room;
        const f16* same = packed_source<f16>(wave, in, k, half, room);
        for (unsigned l = 0; l < lanes; l++) sources[k][l] = static_cast<f32>(same[0]);
      }
    }
    for (unsigned l = 0; l < lanes; l++) results[l] = F{}(sources[slot][l]...);
    clamp_packed(wave, in, results);
    floats_to_halves(results.lane, words[half].lane);
  }
  for (unsigned l = 0; l < lanes; l++) words[0][l] |= words[1][l] << 16;
  merge(wave.vector[in.operand(0).index], words[0].lane, wave.exec());
}

template <class F>
void packed_halves(Table& table, std::string_view mnemonic, F) {
  const Execute execute = [](Wave& wave, const Instruction& in) {
    run_packed_halves<F>(wave, in, std::make_index_sequence<SignatureOf<F>::count>{});
  };
  table.add(mnemonic, Entry{.execute = execute, .clamps = true});
}

// Each result is one of the registers of a source: op_sel bit 0 for the lower, bit 1 for the upper result.
void move_pair(Wave& wave, const Instruction& in) {
  Lanes<u32> results[2], room;
  for (unsigned half = 0; half < 2; half++) {
    Operand chosen = in.operand(1 + half);
    if ((in.op_sel >> half & 1) && !chosen.is_constant()) chosen.index++;
    std::memcpy(results[half].lane, words_of(wave, in, chosen, half, room), sizeof results[half]);
  }
  const u64 exec = wave.exec();
  for (unsigned half = 0; half < 2; half++) {
    merge(wave.vector[in.operand(0).index + half], results[half].lane, exec);
  }
}

// v_fma_mix: each source is an f32, or (op_sel_hi) the half of a register that op_sel chooses.
void mix_sources(const Wave& wave, const Instruction& in, Lanes<f32>* values) {
  for (unsigned slot = 0; slot < 3; slot++) {
    const Operand& operand = in.operand(1 + slot);
    Lanes<u32> room;
    const u32* from = words_of(wave, in, operand, slot, room);
    const bool is_half = in.op_sel_hi >> slot & 1, upper = in.op_sel >> slot & 1;
    if (is_half && operand.kind != Operand::Kind::real) {
      halves_to_floats(from, upper ? 16 : 0, values[slot].lane);
    } else {
      for (unsigned l = 0; l < lanes; l++)
        values[slot][l] = is_half ? static_cast<f32>(operand.constant->real) : as<f32>(from[l]);
    }
    Operand signs = operand;
    signs.absolute |= negates(in, slot, true);  // neg_hi is printed where abs is meant
    signs.negate ^= negates(in, slot, false);
    copy_with_signs(signs, values[slot].lane, values[slot].lane);
  }
}

void fma_mix(Wave& wave, const Instruction& in) {
  Lanes<f32> sources[3], results;
  mix_sources(wave, in, sources);
  for (unsigned l = 0; l < lanes; l++) results[l] = std::fma(sources[0][l], sources[1][l], sources[2][l]);
  put(wave, in, 0, results);
}

template <bool upper>
void fma_mix_half(Wave& wave, const Instruction& in) {
  Lanes<f32> sources[3];
  Lanes<f16> results;
  Lanes<u32> words;
  mix_sources(wave, in, sources);
  for (unsigned l = 0; l < lanes; l++) {
    results[l] = static_cast<f16>(std::fma(sources[0][l], sources[1][l], sources[2][l]));
  }
  clamp_packed(wave, in, results);
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned l = 0; l < lanes; l++) {
    const u16 bits = as<u16>(results[l]);
    words[l] = upper ? pack(half_of(to[l], false), bits) : pack(bits, half_of(to[l], true));
  }
  merge(to, words.lane, wave.exec());
}

void add_real(Table& t) {
  packed(t, "v_pk_fma_f32", [](f32 a, f32 b, f32 c) { return std::fma(a, b, c); });
  packed(t, "v_pk_mul_f32", [](f32 a, f32 b) { return a * b; });
  packed(t, "v_pk_add_f32", [](f32 a, f32 b) { return a + b; });
  packed_halves(t, "v_pk_fma_f16", [](f32 a, f32 b, f32 c) { return fma_of_halves(a, b, c); });
  packed_halves(t, "v_pk_mul_f16", [](f32 a, f32 b) { return a * b; });
  packed_halves(t, "v_pk_add_f16", [](f32 a, f32 b) { return a + b; });
  packed_halves(t, "v_pk_max_f16", [](f32 a, f32 b) { return max_of(a, b); });
  packed_halves(t, "v_pk_min_f16", [](f32 a, f32 b) { return min_of(a, b); });
  packed_halves(t, "v_pk_minimum3_f16", [](f32 a, f32 b, f32 c) {
    return a != a || b != b || c != c ? NAN : min_of(min_of(a, b), c);
  });
  packed_halves(t, "v_pk_maximum3_f16", [](f32 a, f32 b, f32 c) {
    return a != a || b != b || c != c ? NAN : max_of(max_of(a, b), c);
  });
}

void add_integer(Table& t) {
  packed(
      t, "v_pk_add_u16", [](u16 a, u16 b) { return static_cast<u16>(a + b); },
      [](u16 a, u16 b) { return saturated<u16>(a + b); });
  packed(
      t, "v_pk_sub_u16", [](u16 a, u16 b) { return static_cast<u16>(a - b); },
      [](u16 a, u16 b) { return saturated<u16>(a - b); });
  packed(
      t, "v_pk_add_i16", [](i16 a, i16 b) { return static_cast<i16>(a + b); },
      [](i16 a, i16 b) { return saturated<i16>(a + b); });
  packed(
      t, "v_pk_sub_i16", [](i16 a, i16 b) { return static_cast<i16>(a - b); },
      [](i16 a, i16 b) { return saturated<i16>(a - b); });
  packed(t, "v_pk_mul_lo_u16", [](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); });
  packed(
      t, "v_pk_mad_u16", [](u16 a, u16 b, u16 c) { return static_cast<u16>(u32{a} * b + c); },
      [](u16 a, u16 b, u16 c) { return static_cast<u16>(min_of(u64{a} * b + c, u64{0xffff})); });
  packed(
      t, "v_pk_mad_i16", [](i16 a, i16 b, i16 c) { return static_cast<i16>(a * b + c); },
      [](i16 a, i16 b, i16 c) { return saturated<i16>(i64{a} * b + c); });
  packed(t, "v_pk_max_i16", [](i16 a, i16 b) { return max_of(a, b); });
  packed(t, "v_pk_min_i16", [](i16 a, i16 b) { return min_of(a, b); });
  packed(t, "v_pk_max_u16", [](u16 a, u16 b) { return max_of(a, b); });
  packed(t, "v_pk_min_u16", [](u16 a, u16 b) { return min_of(a, b); });
  packed(t, "v_pk_lshlrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); });
  packed(t, "v_pk_lshrrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); });
  packed(t, "v_pk_ashrrev_i16", [](i16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); });
}

// VOP2's packed form has no selection, and the destination as its addend.
void fmac_packed(Wave& wave, const Instruction& in) {
  Lanes<u32> room_a, room_b, words;
  const u32* a = words_of(wave, in, in.operand(1), 0, room_a);
  const u32* b = words_of(wave, in, in.operand(2), 1, room_b);
  u32* to = wave.vector[in.operand(0).index];
  for (unsigned l = 0; l < lanes; l++) {
    u16 halves[2];
    for (unsigned h = 0; h < 2; h++) {
      halves[h] =
          as<u16>(fma_half(as<f16>(half_of(a[l], h)), as<f16>(half_of(b[l], h)), as<f16>(half_of(to[l], h))));
    }
    words[l] = pack(halves[0], halves[1]);
  }
  merge(to, words.lane, wave.exec());
}

}  // namespace

void add_packed(Table& t) {
  add_real(t);
  add_integer(t);
  t.add("v_pk_mov_b32", move_pair);
  t.add("v_pk_fmac_f16", fmac_packed);
  for (const char* name : {"v_fma_mix_f32", "v_mad_mix_f32"})
    t.add(name, Entry{.execute = fma_mix, .clamps = true});
  t.add("v_fma_mixlo_f16", Entry{.execute = fma_mix_half<false>, .clamps = true});
  t.add("v_fma_mixhi_f16", Entry{.execute = fma_mix_half<true>, .clamps = true});
}

}  // namespace amd_gpu
