// MUBUF: untyped buffer instructions through a descriptor of four scalar registers. What is out of range
// reads as zero and is not written. Source: AMD Instinct MI300 ISA, "Vector Memory Buffer Instructions",
// "Buffer Resource Descriptor".
#include "access.h"
#include "memory_atomics.h"

namespace amd_gpu {
namespace {

// Operands of an address: vector offset and/or index ("off" where neither is used), descriptor, scalar
// offset.
class BufferPath {
 public:
  static constexpr unsigned load_address = 1, store_address = 1, store_data = 0;
  static AtomicOperands atomic_operands(const Instruction&) { return {0, 0, 1}; }

  [[gnu::noinline]] BufferPath(Wave& wave, const Instruction& in, unsigned first) : wave_(wave) {
    const Operand& varying = in.operand(first);
    const u32* descriptor = &wave.scalar[in.operand(first + 1).index];
    base_ = join(descriptor[0], descriptor[1] & 0xffff);
    const u32 stride = descriptor[1] >> 16 & 0x3fff;
    records_ = descriptor[2];
    scalar_offset_ = wave.get32(in.operand(first + 2));
    structured_ = in.index_enabled && stride != 0;
    for (unsigned l = 0; l < lanes; l++) {
      const u32 index = in.index_enabled ? wave.vector[varying.index][l] : 0;
      const u32 offset = in.offset_enabled ? wave.vector[varying.index + in.index_enabled][l] : 0;
      index_[l] = index;
      offset_[l] = u64{offset} + static_cast<u32>(in.offset) + u64{index} * stride;
    }
    is_scratch_ = base_ >= scratch_descriptor_base && base_ - scratch_descriptor_base < u64{1} << 32;
    wave.reach.refresh();
  }

  [[gnu::noinline]] void read(unsigned lane, void* to, u32 bytes) {
    if (is_scratch_) {
      std::memcpy(to, scratch(lane, bytes, false), bytes);
      return;
    }
    each_element(lane, bytes,
                 [&](u64 va, u32 at, u32 size) { wave_.reach.read(va, static_cast<u8*>(to) + at, size); });
  }
  [[gnu::noinline]] void write(unsigned lane, const void* from, u32 bytes) {
    if (is_scratch_) {
      std::memcpy(scratch(lane, bytes, true), from, bytes);
      return;
    }
    each_element(lane, bytes, [&](u64 va, u32 at, u32 size) {
      wave_.reach.write(va, static_cast<const u8*>(from) + at, size);
    });
  }
  [[gnu::noinline]] u8* word(unsigned lane, u32 bytes) {
    if (is_scratch_) return scratch(lane, bytes, true);
    if (!in_range(lane, 0, bytes)) return nullptr;
    u8* found = wave_.reach.inside_one(address(lane), bytes, true);
    if (!found) throw Stop{FaultKind::memory, "atomic across two mappings", address(lane), true};
    return found;
  }
  [[gnu::noinline]] bool find_near(bool write, Near& found) const {
    if (is_scratch_ || structured_ || wave_.exec() != ~u64{0}) return false;
    u64 differs = 0;
    for (unsigned l = 0; l < lanes; l++) differs |= offset_[l] ^ (offset_[0] + u64{4} * l);
    if (differs || !in_range(0, 0, 4 * lanes)) return false;
    u8* all = wave_.reach.inside_one_if(address(0), 4 * lanes, write);
    for (unsigned r = 0; all && r < rows; r++)
      found.at[r] = all + window_bytes * r, found.behind[r] = one_by_one;
    return all;
  }
  [[gnu::noinline]] u8* around(u32 bytes, bool write, Around& at) const {
    if (is_scratch_ || structured_) return nullptr;
    Lanes<u32> first, whole;
    Lanes<u64> each;
    for (unsigned l = 0; l < lanes; l++) {
      const u64 start = offset_[l] + scalar_offset_;
      first[l] = start + (bytes < 4 ? bytes : 4) <= records_;
      whole[l] = start + bytes <= records_;
      each[l] = base_ + start;
    }
    const u64 active = wave_.exec(), inside = mask_of(whole) & active;
    if (inside != (mask_of(first) & active)) return nullptr;  // of some lane the first words are in range
    return around_addresses(wave_.reach, each, inside, bytes, write, at);
  }

 private:
  u64 address(unsigned lane) const { return base_ + scalar_offset_ + offset_[lane]; }

  // Structures are counted, bytes of a raw buffer too.
  bool in_range(unsigned lane, u32 at, u32 bytes) const {
    if (structured_) return index_[lane] < records_;
    return offset_[lane] + scalar_offset_ + at + bytes <= records_;
  }
  // Words of a wider access are in or out of range one by one.
  template <class Body>
  void each_element(unsigned lane, u32 bytes, Body body) {
    if (in_range(lane, 0, bytes)) return body(address(lane), 0, bytes);
    for (u32 at = 0; at < bytes; at += 4) {
      const u32 size = bytes - at < 4 ? bytes - at : 4;
      if (in_range(lane, at, size)) body(address(lane) + at, at, size);
    }
  }
  // The scalar offset and what was added to the base count bytes of the wave: 64 for each byte of a lane.
  u8* scratch(unsigned lane, u32 bytes, bool write) {
    const u64 of_wave = base_ - scratch_descriptor_base + scalar_offset_;
    return wave_.scratch_at(low32(of_wave / lanes + offset_[lane]), bytes, lane, write);
  }

  Wave& wave_;
  u64 base_ = 0;
  u32 records_ = 0, scalar_offset_ = 0;
  bool structured_ = false, is_scratch_ = false;
  Lanes<u32> index_;
  Lanes<u64> offset_;
};

// "lds" behind a load sends it to LDS, and it has no data operand.
template <class T, Execute to_register, unsigned count = 1>
void load_anywhere(Wave& wave, const Instruction& in) {
  in.to_lds ? load_to_lds<BufferPath, T, count>(wave, in) : to_register(wave, in);
}

}  // namespace

void add_buffer(Table& t) {
  add_loads_and_stores<BufferPath>(t, "buffer_");
  add_atomics<BufferPath>(t, "buffer_atomic_");
  t.add("buffer_load_dword", load_anywhere<u32, load_words<BufferPath, 1>>);
  t.add("buffer_load_dwordx3", load_anywhere<u32, load_words<BufferPath, 3>, 3>);
  t.add("buffer_load_dwordx4", load_anywhere<u32, load_words<BufferPath, 4>, 4>);
  t.add("buffer_load_ubyte", load_anywhere<u8, load_part<BufferPath, u8, Half::none>>);
  t.add("buffer_load_sbyte", load_anywhere<i8, load_part<BufferPath, i8, Half::none>>);
  t.add("buffer_load_ushort", load_anywhere<u16, load_part<BufferPath, u16, Half::none>>);
  t.add("buffer_load_sshort", load_anywhere<i16, load_part<BufferPath, i16, Half::none>>);
}

}  // namespace amd_gpu
