// DS: loads and stores of LDS.
// Source: AMD Instinct MI300 ISA, "Data Share Operations", "LDS and GDS Instructions".
#include "access.h"

namespace amd_gpu {
namespace {

// Where all lanes' elements lie in LDS; false where one of them is outside. Inactive lanes are at the start.
bool around_elements(const Wave& wave, const u32* address, u32 offset, u32 bytes, Around& at) {
  at.inside = wave.exec();
  // The sum has 32 bits and wraps around: compilers write negative indices so.
  for (unsigned l = 0; l < lanes; l++) at.from[l] = address[l] + offset;
  if (at.inside != ~u64{0}) {
    const Lanes<u32> start{};
    merge(at.from.lane, start.lane, ~at.inside);
  }
  return u64{highest_of(at.from.lane)} + bytes <= wave.lds_bytes;
}

// Where the windows of lanes that are near begin; false where one of them is not all inside.
bool find_windows(const Wave& wave, const u32* address, u32 offset, u8** at) {
  for (unsigned r = 0; r < rows; r++) {
    const u32 first = address[r * sixteen] + offset;
    if (u64{first} + window_bytes > wave.lds_bytes) return false;
    at[r] = wave.lds + first;
  }
  return true;
}

class LdsPath {
 public:
  static constexpr unsigned load_address = 1, store_address = 0, store_data = 1;

  LdsPath(Wave& wave, const Instruction& in, unsigned first)
      : wave_(wave), address_(wave.vector[in.operand(first).index]), offset_(static_cast<u16>(in.offset)) {}

  void read(unsigned lane, void* to, u32 bytes) { std::memcpy(to, at(lane, bytes, false), bytes); }
  void write(unsigned lane, const void* from, u32 bytes) { std::memcpy(at(lane, bytes, true), from, bytes); }
  bool find_near(bool write, Near& found) const {
    return wave_.exec() == ~u64{0} && are_near(address_, write, found) &&
           find_windows(wave_, address_, offset_, found.at);
  }
  u8* around(u32 bytes, bool, Around& at) const {
    return around_elements(wave_, address_, offset_, bytes, at) ? wave_.lds : nullptr;
  }

 private:
  u8* at(unsigned lane, u32 bytes, bool write) {
    return wave_.lds_at(u64{address_[lane] + offset_}, bytes, write);
  }

  Wave& wave_;
  const u32* address_;
  u32 offset_;
};

// The address of a T so many elements on: 32 bits, with wraparound, as the sum for one element.
template <class T>
u64 element_at(u32 address, unsigned elements) {
  return address + static_cast<u32>(elements * sizeof(T));
}

// Two elements at offsets that count elements, or 64 of them (st64).
template <class T, unsigned step>
void read_two(Wave& wave, const Instruction& in) {
  constexpr unsigned words = sizeof(T) / 4;
  const u16 to = in.operand(0).index;
  const u32* address = wave.vector[in.operand(1).index];
  const u32 offsets[2] = {in.offset0 * step, in.offset1 * step};
  if constexpr (words == 1) {
    Near first;
    u8* second[rows];
    if (wave.exec() == ~u64{0} && are_near(address, false, first) &&
        find_windows(wave, address, offsets[0] * 4, first.at) &&
        find_windows(wave, address, offsets[1] * 4, second)) [[likely]] {
      load_near(first.at, first.behind, wave.vector[to]);
      return load_near(second, first.behind, wave.vector[to + 1]);
    }
  }
  Around at[2];
  Lanes<u32> read[2 * words];
  for (unsigned k = 0; k < 2; k++) {
    const u32 offset = offsets[k] * static_cast<u32>(sizeof(T));
    if (around_elements(wave, address, offset, sizeof(T), at[k]))
      gather_rows<words>(wave.lds, at[k].from.lane, read + k * words);
    else
      for_active(wave, [&](unsigned l) { wave.lds_at(u64{address[l] + offset}, sizeof(T), false); });
  }
  for (unsigned k = 0; k < 2 * words; k++) merge(wave.vector[to + k], read[k].lane, wave.exec());
}

template <class T, unsigned step>
void write_two(Wave& wave, const Instruction& in) {
  constexpr unsigned words = sizeof(T) / 4;
  const u32* address = wave.vector[in.operand(0).index];
  for_active(wave, [&](unsigned l) {
    const unsigned offsets[2] = {in.offset0, in.offset1};
    for (unsigned element = 0; element < 2; element++) {
      u32 values[words];
      for (unsigned k = 0; k < words; k++) values[k] = wave.vector[in.operand(1 + element).index + k][l];
      std::memcpy(wave.lds_at(element_at<T>(address[l], offsets[element] * step), sizeof(T), true), values,
                  sizeof(T));
    }
  });
}

// ds_read_b64_tr_b16 and the like: each lane reads, and groups of 16 lanes transpose what they have read. Of
// a group `row` lanes together have one row of 16 elements; lane i gets the i-th of each row. Source: AMD
// Instinct CDNA4 ISA, "MFMA Transpose Load from LDS".
template <unsigned bits, unsigned words>
void read_transposed(Wave& wave, const Instruction& in) {
  constexpr unsigned each = 32 * words / bits, row = 16 / each, group = 16;
  LdsPath path(wave, in, 1);
  u8 read[lanes][4 * words + 4] = {};  // an element may end in the word behind
  for_active(wave, [&](unsigned l) { path.read(l, read[l], 4 * words); });
  const u16 to = in.operand(0).index;
  for_active(wave, [&](unsigned l) {
    const unsigned first = l / group * group, column = l % group;
    u32 made[words + 1] = {};
    for (unsigned k = 0; k < each; k++) {
      const unsigned from = column % each * bits, at = k * bits;
      u32 element;
      std::memcpy(&element, &read[first + k * row + column / each][from / 8], sizeof element);
      const u64 placed = u64{element >> from % 8 & ((1u << bits) - 1)} << at % 32;
      made[at / 32] |= low32(placed);
      made[at / 32 + 1] |= high32(placed);
    }
    for (unsigned k = 0; k < words; k++) wave.vector[to + k][l] = made[k];
  });
}

}  // namespace

void add_lds(Table& t) {
  t.add("ds_read_u8", load_part<LdsPath, u8, Half::none>);
  t.add("ds_read_i8", load_part<LdsPath, i8, Half::none>);
  t.add("ds_read_u16", load_part<LdsPath, u16, Half::none>);
  t.add("ds_read_i16", load_part<LdsPath, i16, Half::none>);
  t.add("ds_read_u8_d16", load_part<LdsPath, u8, Half::low>);
  t.add("ds_read_u8_d16_hi", load_part<LdsPath, u8, Half::high>);
  t.add("ds_read_i8_d16", load_part<LdsPath, i8, Half::low>);
  t.add("ds_read_i8_d16_hi", load_part<LdsPath, i8, Half::high>);
  t.add("ds_read_u16_d16", load_part<LdsPath, u16, Half::low>);
  t.add("ds_read_u16_d16_hi", load_part<LdsPath, u16, Half::high>);
  t.add("ds_read_b32", load_words<LdsPath, 1>);
  t.add("ds_read_b64", load_words<LdsPath, 2>);
  t.add("ds_read_b96", load_words<LdsPath, 3>);
  t.add("ds_read_b128", load_words<LdsPath, 4>);
  t.add("ds_write_b8", store_part<LdsPath, u8, Half::none>);
  t.add("ds_write_b8_d16_hi", store_part<LdsPath, u8, Half::high>);
  t.add("ds_write_b16", store_part<LdsPath, u16, Half::none>);
  t.add("ds_write_b16_d16_hi", store_part<LdsPath, u16, Half::high>);
  t.add("ds_write_b32", store_words<LdsPath, 1>);
  t.add("ds_write_b64", store_words<LdsPath, 2>);
  t.add("ds_write_b96", store_words<LdsPath, 3>);
  t.add("ds_write_b128", store_words<LdsPath, 4>);
  t.add("ds_read2_b32", read_two<u32, 1>);
  t.add("ds_read2_b64", read_two<u64, 1>);
  t.add("ds_read2st64_b32", read_two<u32, 64>);
  t.add("ds_read2st64_b64", read_two<u64, 64>);
  t.add("ds_write2_b32", write_two<u32, 1>);
  t.add("ds_write2_b64", write_two<u64, 1>);
  t.add("ds_write2st64_b32", write_two<u32, 64>);
  t.add("ds_write2st64_b64", write_two<u64, 64>);
  t.add("ds_read_b64_tr_b4", read_transposed<4, 2>);
  t.add("ds_read_b96_tr_b6", read_transposed<6, 3>);
  t.add("ds_read_b64_tr_b8", read_transposed<8, 2>);
  t.add("ds_read_b64_tr_b16", read_transposed<16, 2>);
  t.add_words_only("ds_nop", [](Wave&, const Instruction&) {});
}

}  // namespace amd_gpu
