// Loads, stores and atomics over any way to memory. A Path is made for one instruction and says what a lane
// reaches:
//   Path(wave, instruction, first)   `first` is the operand where its address begins
//   read(lane, to, bytes), write(lane, from, bytes)
//   word(lane, bytes)                where an atomic happens; null where it is dropped
//   find_near(write, found)          where the words of all lanes are, if all are active and so close
//   around(bytes, write, at)         the same of lanes anywhere
//   load_address, store_address, store_data   operand numbers of loads and stores
#ifndef KERNCAP_AMD_GPU_ISA_ACCESS_H
#define KERNCAP_AMD_GPU_ISA_ACCESS_H

#include "lanes.h"

namespace amd_gpu {

// How many bytes each lane is behind the lowest, and which of the active lanes there is memory for: the
// others read zero and write nothing, and are given a place that can be read.
struct Around {
  Lanes<u32> from;
  u64 inside;
};

// For lanes at these addresses, of which the active ones count: null where they are not in one mapping that
// was used before, within 2 GiB.
inline u8* around_addresses(const Reach& reach, Lanes<u64>& address, u64 active, u32 bytes, bool write,
                            Around& at) {
  at.inside = active;
  if (!active) {
    static u8 nowhere[64];
    at.from = {};
    return nowhere;
  }
  if (active != ~u64{0}) {
    const u64 some = address[static_cast<unsigned>(std::countr_zero(active))];
    for (unsigned l = 0; l < lanes; l++) address[l] = active >> l & 1 ? address[l] : some;
  }
  u64 lowest = address[0], highest = address[0];
  for (unsigned l = 0; l < lanes; l++) {
    lowest = address[l] < lowest ? address[l] : lowest;
    highest = address[l] > highest ? address[l] : highest;
  }
  if (highest > ~u64{0} - bytes || highest - lowest > 0x7fffff00) return nullptr;
  u8* found = reach.inside_one_if(lowest, highest - lowest + bytes, write);
  for (unsigned l = 0; l < lanes; l++) at.from[l] = low32(address[l] - lowest);
  return found;
}

// The lanes' words, in rows of sixteen lanes whose words all lie close behind that of the row's first lane.
struct Near {
  u8* at[rows];
  Sixteen<u32> behind[rows];  // bytes from there to each lane's word
};
constexpr unsigned window_bytes = 4 * sixteen;
constexpr Sixteen<u32> one_by_one = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60};

// Whether lanes at these addresses are so; for writing each row has to fill its window, in order. Sets
// `behind`.
inline bool are_near(const u32* address, bool write, Near& found) {
  Sixteen<u32> other = {};
  for (unsigned r = 0; r < rows; r++) {
    found.behind[r] = sixteen_at(address + r * sixteen) - address[r * sixteen];
    other |= write ? found.behind[r] ^ one_by_one : found.behind[r] & ~60u;
  }
  return !differ(other, Sixteen<u32>{});
}

inline void load_near(u8* const* at, const Sixteen<u32>* behind, u32* to) {
  for (unsigned r = 0; r < rows; r++, to += sixteen) {
    const Sixteen<u32> which = behind[r] >> 2;
#if defined(__AVX512F__)
    Sixteen<u32> words;
    std::memcpy(&words, at[r], sizeof words);
    *reinterpret_cast<Sixteen<u32>*>(to) = __builtin_shuffle(words, which);
#else
    Eight words[2], chosen[2];
    std::memcpy(words, at[r], sizeof words);
    std::memcpy(chosen, &which, sizeof chosen);
    for (unsigned k = 0; k < 2; k++)
      *reinterpret_cast<Eight*>(to + 8 * k) = __builtin_shuffle(words[0], words[1], chosen[k]);
#endif
  }
}

// A 16-bit load may fill half of a register and keep the other one; a 16-bit store may take the upper half.
enum class Half { none, low, high };

template <class Path, class T, Half half>
void load_part(Wave& wave, const Instruction& in) {
  Path path(wave, in, Path::load_address);
  u32* to = wave.vector[in.operand(0).index];
  Lanes<u32> words{};
  const auto take = [&](unsigned l, T value) {
    const u32 word = static_cast<u32>(value);  // extended as T is signed
    if (half == Half::none)
      words[l] = word;
    else if (half == Half::low)
      words[l] = (to[l] & 0xffff0000) | (word & 0xffff);
    else
      words[l] = (to[l] & 0xffff) | word << 16;
  };
  Around at;
  const u8* base = path.around(sizeof(T), false, at);
  for_active(wave, [&](unsigned l) {
    T value{};
    if (!base)
      path.read(l, &value, sizeof value);
    else if (at.inside >> l & 1)
      std::memcpy(&value, base + at.from[l], sizeof value);
    take(l, value);
  });
  merge(to, words.lane, wave.exec());
}

template <class Path, unsigned words>
void load_words(Wave& wave, const Instruction& in) {
  Path path(wave, in, Path::load_address);
  const u16 to = in.operand(0).index;
  if (words == 1) {
    Near found;
    if (path.find_near(false, found)) [[likely]]
      return load_near(found.at, found.behind, wave.vector[to]);
  }
  Around at;
  if (const u8* base = path.around(4 * words, false, at)) {
    Lanes<u32> rows[words];
    gather_rows<words>(base, at.from.lane, rows);
    for (unsigned k = 0; k < words; k++) {
      if (at.inside != wave.exec()) {
        const Lanes<u32> zeros{};
        merge(rows[k].lane, zeros.lane, ~at.inside);
      }
      merge(wave.vector[to + k], rows[k].lane, wave.exec());
    }
    return;
  }
  for_active(wave, [&](unsigned l) {
    u32 values[words] = {};
    path.read(l, values, sizeof values);
    for (unsigned k = 0; k < words; k++) wave.vector[to + k][l] = values[k];
  });
}

template <class Path, class T, Half half>
void store_part(Wave& wave, const Instruction& in) {
  Path path(wave, in, Path::store_address);
  const u32* from = wave.vector[in.operand(Path::store_data).index];
  Around at;
  u8* base = path.around(sizeof(T), true, at);
  for_active(wave, [&](unsigned l) {
    const T value = static_cast<T>(half == Half::high ? from[l] >> 16 : from[l]);
    if (!base)
      path.write(l, &value, sizeof value);
    else if (at.inside >> l & 1)
      std::memcpy(base + at.from[l], &value, sizeof value);
  });
}

template <class Path, unsigned words>
void store_words(Wave& wave, const Instruction& in) {
  Path path(wave, in, Path::store_address);
  const u16 from = in.operand(Path::store_data).index;
  if (words == 1) {
    Near found;
    if (path.find_near(true, found)) [[likely]] {
      for (unsigned r = 0; r < rows; r++)
        std::memcpy(found.at[r], wave.vector[from] + r * sixteen, window_bytes);
      return;
    }
  }
  Around at;
  u8* base = path.around(4 * words, true, at);
  for_active(wave, [&](unsigned l) {
    u32 values[words];
    for (unsigned k = 0; k < words; k++) values[k] = wave.vector[from + k][l];
    if (!base)
      path.write(l, values, sizeof values);
    else if (at.inside >> l & 1)
      std::memcpy(base + at.from[l], values, sizeof values);
  });
}

// Straight into LDS: at M0 and the instruction's offset, one lane behind the other, with whole words. No data
// operand.
template <class Path, class T, unsigned count = 1>
void load_to_lds(Wave& wave, const Instruction& in) {
  Path path(wave, in, 0);
  const u64 base = u64{wave.scalar[m0]} + static_cast<u32>(in.offset);
  for_active(wave, [&](unsigned l) {
    T values[count] = {};
    path.read(l, values, sizeof values);
    u32 words[count];
    for (unsigned k = 0; k < count; k++) words[k] = static_cast<u32>(values[k]);
    std::memcpy(wave.lds_at(base + sizeof words * l, sizeof words, true), words, sizeof words);
  });
}

// The common names: "global_" + "load_dword" and so on.
template <class Path>
void add_loads_and_stores(Table& t, const std::string& prefix) {
  t.add(prefix + "load_ubyte", load_part<Path, u8, Half::none>);
  t.add(prefix + "load_sbyte", load_part<Path, i8, Half::none>);
  t.add(prefix + "load_ushort", load_part<Path, u16, Half::none>);
  t.add(prefix + "load_sshort", load_part<Path, i16, Half::none>);
  t.add(prefix + "load_ubyte_d16", load_part<Path, u8, Half::low>);
  t.add(prefix + "load_ubyte_d16_hi", load_part<Path, u8, Half::high>);
  t.add(prefix + "load_sbyte_d16", load_part<Path, i8, Half::low>);
  t.add(prefix + "load_sbyte_d16_hi", load_part<Path, i8, Half::high>);
  t.add(prefix + "load_short_d16", load_part<Path, u16, Half::low>);
  t.add(prefix + "load_short_d16_hi", load_part<Path, u16, Half::high>);
  t.add(prefix + "load_dword", load_words<Path, 1>);
  t.add(prefix + "load_dwordx2", load_words<Path, 2>);
  t.add(prefix + "load_dwordx3", load_words<Path, 3>);
  t.add(prefix + "load_dwordx4", load_words<Path, 4>);
  t.add(prefix + "store_byte", store_part<Path, u8, Half::none>);
  t.add(prefix + "store_byte_d16_hi", store_part<Path, u8, Half::high>);
  t.add(prefix + "store_short", store_part<Path, u16, Half::none>);
  t.add(prefix + "store_short_d16_hi", store_part<Path, u16, Half::high>);
  t.add(prefix + "store_dword", store_words<Path, 1>);
  t.add(prefix + "store_dwordx2", store_words<Path, 2>);
  t.add(prefix + "store_dwordx3", store_words<Path, 3>);
  t.add(prefix + "store_dwordx4", store_words<Path, 4>);
}

template <class Path>
void add_loads_to_lds(Table& t, const std::string& prefix) {
  t.add(prefix + "load_lds_ubyte", load_to_lds<Path, u8>);
  t.add(prefix + "load_lds_sbyte", load_to_lds<Path, i8>);
  t.add(prefix + "load_lds_ushort", load_to_lds<Path, u16>);
  t.add(prefix + "load_lds_sshort", load_to_lds<Path, i16>);
  t.add(prefix + "load_lds_dword", load_to_lds<Path, u32>);
  t.add(prefix + "load_lds_dwordx3", load_to_lds<Path, u32, 3>);
  t.add(prefix + "load_lds_dwordx4", load_to_lds<Path, u32, 4>);
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_ACCESS_H
