// Machine code of the host for rows of sixteen lanes: AVX-512 with masks, as far as stretch.cpp needs it.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, "EVEX", "VEX Prefix".
#ifndef KERNCAP_AMD_GPU_ISA_HOST_CODE_H
#define KERNCAP_AMD_GPU_ISA_HOST_CODE_H

#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "numbers.h"

namespace amd_gpu {

enum class Prefix : u8 { none, p66, pF3, pF2 };
enum class Map : u8 { m0F = 1, m0F38, m0F3A };
// An instruction on words.
struct HostOp {
  Prefix prefix;
  Map map;
  u8 code;
};

// The registers that addresses are behind: the first three arguments of a function, and one that is free.
enum class Base : u8 { rdi = 7, rsi = 6, rdx = 2, rcx = 1 };
constexpr unsigned host_registers = 32, no_mask = 0;

// Where an instruction's last source is: a vector register, or a word in memory that counts for all lanes.
struct Place {
  bool in_memory = false;
  u8 number = 0;  // of the register
  Base base = Base::rdi;
  i32 behind = 0;
};

struct Form {
  bool whole = true;     // of 512 bits; else of 128
  bool indexed = false;  // the number of a place is of a register with what to add for each lane
};

class HostCode {
 public:
  std::vector<u8> bytes;

  // to = f(a, b); of an instruction with one source, that is b. Where lanes are masked, the others of `to`
  // are kept. `to` may be the number of a mask, where the instruction makes one.
  void emit(HostOp op, unsigned to, unsigned a, const Place& b, unsigned mask = no_mask) {
    evex(op, to, a, b, b.in_memory, mask);
  }
  void emit(HostOp op, unsigned to, unsigned a, const Place& b, u8 immediate, unsigned mask) {
    evex(op, to, a, b, b.in_memory, mask);
    put(immediate);
  }
  void broadcast(unsigned to, const Place& word) {
    evex({Prefix::p66, Map::m0F38, 0x58}, to, 0, word, false, no_mask);
  }
  // A whole row.
  void load(unsigned to, Base base, i32 behind) {
    evex({Prefix::pF3, Map::m0F, 0x6f}, to, 0, {true, 0, base, behind}, false, no_mask);
  }
  void store(Base base, i32 behind, unsigned from, unsigned mask = no_mask) {
    evex({Prefix::pF3, Map::m0F, 0x7f}, from, 0, {true, 0, base, behind}, false, mask);
  }
  // Sixteen bits of memory and a mask.
  void load_mask(unsigned to, Base base, i32 behind) { mask_and_memory(0x90, to, base, behind); }
  void store_mask(Base base, i32 behind, unsigned from) { mask_and_memory(0x91, from, base, behind); }
  void and_masks(unsigned to, unsigned a, unsigned b) { masks(0x41, to, a, b); }
  void or_masks(unsigned to, unsigned a, unsigned b) { masks(0x45, to, a, b); }
  // Sixty-four bits of memory that were written in four parts, once more in one: the host hands such a store
  // on to what reads it next, but not the parts.
  void join_parts(Base base, i32 behind) {
    load_part(eax, base, behind), load_part(ecx, base, behind + 2);
    append({0xc1, 0xe1, 16, 0x09, 0xc8});  // shl ecx, 16; or eax, ecx
    load_part(ecx, base, behind + 4), load_part(r8d, base, behind + 6);
    append({0x41, 0xc1, 0xe0, 16, 0x44, 0x09, 0xc1});  // shl r8d, 16; or ecx, r8d
    append({0x48, 0xc1, 0xe1, 32, 0x48, 0x09, 0xc8});  // shl rcx, 32; or rax, rcx
    store_address(base, behind);
  }
  // Of a function of (rdi, rsi, rdx): rdi and rdx are kept over calls. CodeMemory says the same to those who
  // unwind.
  void begin() {
    // push rbp; mov rbp, rsp; push rbx; push r12; mov rbx, rdi; mov r12, rdx
    append({0x55, 0x48, 0x89, 0xe5, 0x53, 0x41, 0x54, 0x48, 0x89, 0xfb, 0x49, 0x89, 0xd4});
  }
  void end() {
    append({0x41, 0x5c, 0x5b, 0x5d, 0xc5, 0xf8, 0x77, 0xc3});  // pop r12; pop rbx; pop rbp; vzeroupper; ret
  }
  // A function of (rdi, this, number), which is written down at rdi. `scalars` is how far rsi is behind rdi.
  void call(const void* function, const void* with, u32 number, i32 written_down, i32 scalars) {
    append({0x48, 0xbe});  // mov rsi
    put_pointer(with);
    append({0x48, 0x89});  // mov [], rsi
    put_address(esi, Base::rdi, written_down);
    put(0xba);  // mov edx
    put_word(number);
    append({0xc5, 0xf8, 0x77, 0x48, 0xb8});  // vzeroupper; mov rax
    put_pointer(function);
    append({0xff, 0xd0, 0x48, 0x89, 0xdf, 0x4c, 0x89, 0xe2, 0x48,
            0x8d});                        // call rax; mov rdi, rbx; mov rdx, r12
    put_address(esi, Base::rdi, scalars);  // lea rsi
  }

  // --- jumps, forward and back ---
  enum class If : u8 { below = 0x82, not_below = 0x83, is_zero = 0x84, not_zero = 0x85, above = 0x87 };
  size_t jump_if(If condition) {
    append({0x0f, static_cast<u8>(condition)});
    return distance_here();
  }
  size_t jump() {
    put(0xe9);
    return distance_here();
  }
  void land(size_t jump) { set_distance(jump, bytes.size()); }
  void jump_back(size_t to) { set_distance(jump(), to); }
  void jump_back_if(If condition, size_t to) { set_distance(jump_if(condition), to); }
  // Zero where none of both masks has a bit; where all have (`below`), both of them together are full.
  void test_masks(unsigned a, unsigned b) {
    append({0xc5, 0xf8, 0x98, static_cast<u8>(0xc0 | a << 3 | b)});  // kortestw
  }

  // --- an address in rax, and what is there ---
  // The word of the lowest lane, for all lanes.
  void spread_lowest(unsigned to, unsigned from) {
    emit({Prefix::p66, Map::m0F38, 0x58}, to, 0, {.number = static_cast<u8>(from)});
  }
  void low_address(unsigned lowest) { word_of(lowest, eax); }
  void high_address(unsigned lowest) {
    word_of(lowest, ecx);
    append({0x48, 0xc1, 0xe1, 32, 0x48, 0x09, 0xc8});  // shl rcx, 32; or rax, rcx
  }
  void compare_low_address(u32 with) {
    put(0x3d);  // cmp eax
    put_word(with);
  }
  void add_to_address(i32 offset) {
    append({0x48, 0x05});  // add rax
    put_word(static_cast<u32>(offset));
  }
  void add_to_address(Base base, i32 behind) {
    append({0x48, 0x03});  // add rax, []
    put_address(eax, base, behind);
  }
  // rcx = where the host has rax. Goes on behind land() of what this gives if `size` bytes of memory from
  // `first` on, three words of 64 bits, don't have all of `bytes`.
  std::array<size_t, 2> find_in(Base base, i32 first, i32 size, i32 host, u8 bytes_there) {
    append({0x48, 0x89, 0xc1, 0x48, 0x2b});  // mov rcx, rax; sub rcx, []
    put_address(ecx, base, first);
    append({0x4c, 0x8b});  // mov r8, []
    put_address(r8d, base, size);
    append({0x49, 0x83, 0xe8, bytes_there});  // sub r8
    const size_t too_small = jump_if(If::below);
    append({0x4c, 0x39, 0xc1});  // cmp rcx, r8
    const size_t outside = jump_if(If::above);
    append({0x48, 0x03});  // add rcx, []
    put_address(ecx, base, host);
    return {too_small, outside};
  }
  // The same with what r9 is the address of: fields as far behind it.
  std::array<size_t, 2> find_in_r9(u8 first, u8 size, u8 host, u8 bytes_there) {
    append({0x48, 0x89, 0xc1, 0x49, 0x2b, 0x49, first});              // mov rcx, rax; sub rcx, [r9 +]
    append({0x4d, 0x8b, 0x41, size, 0x49, 0x83, 0xe8, bytes_there});  // mov r8, [r9 +]; sub r8
    const size_t too_small = jump_if(If::below);
    append({0x4c, 0x39, 0xc1});  // cmp rcx, r8
    const size_t outside = jump_if(If::above);
    append({0x49, 0x03, 0x49, host});  // add rcx, [r9 +]
    return {too_small, outside};
  }
  void load_r9(Base base, i32 behind) {
    append({0x4c, 0x8b});  // mov r9, []
    put_address(r9d, base, behind);
  }
  void store_r9(Base base, i32 behind) {
    append({0x4c, 0x89});  // mov [], r9
    put_address(r9d, base, behind);
  }
  void address_in_r9(Base base, i32 behind) {
    append({0x4c, 0x8d});  // lea r9, []
    put_address(r9d, base, behind);
  }
  // Jumps if the byte that far behind r9 is zero.
  size_t jump_unless_r9(u8 behind) {
    append({0x41, 0x80, 0x79, behind, 0});  // cmp byte [r9 +]
    return jump_if(If::is_zero);
  }
  // Goes back to where another `step` behind r9 is looked at, unless that is at the end.
  void next_in_r9(u8 step, Base base, i32 end, size_t back) {
    append({0x49, 0x83, 0xc1, step, 0x4c, 0x8d});  // add r9; lea r8, []
    put_address(r8d, base, end);
    append({0x4d, 0x39, 0xc1});  // cmp r9, r8
    jump_back_if(If::below, back);
  }
  // The 64 bits in memory.
  void load_address(Base base, i32 behind) {
    append({0x48, 0x8b});  // mov rax, []
    put_address(eax, base, behind);
  }
  // With 64 bits in memory: rax and, or, xor [].
  enum class Logic : u8 { either = 0x0b, both = 0x23, different = 0x33 };
  void combine_address(Logic operation, Base base, i32 behind) {
    append({0x48, static_cast<u8>(operation)});
    put_address(eax, base, behind);
  }
  void combine_place() { append({0x48, 0x21, 0xc8}); }   // and rax, rcx
  void invert_address() { append({0x48, 0xf7, 0xd0}); }  // not rax
  void store_address(Base base, i32 behind) {
    append({0x48, 0x89});  // mov [], rax
    put_address(eax, base, behind);
  }
  // A byte: whether the last operation left something.
  void store_whether_not_zero(Base base, i32 behind) {
    append({0x48, 0x85, 0xc0, 0x0f, 0x95});  // test rax, rax; setne
    put_address(0, base, behind);
  }
  void store_word(Base base, i32 behind, u32 value) {
    put(0xc7);  // mov []
    put_address(0, base, behind);
    put_word(value);
  }
  void clear_low_bits_of_address() { append({0x48, 0x83, 0xe0, 0xfc}); }  // and rax, -4
  // From rcx on, 4, 8, 16, 32 or 64 bytes.
  void copy(Base to, i32 behind, u8 size) {
    switch (size) {
      case 4:
        append({0x8b, 0x01, 0x89});  // mov eax, [rcx]; mov [], eax
        return put_address(eax, to, behind);
      case 8:
        append({0x48, 0x8b, 0x01, 0x48, 0x89});
        return put_address(eax, to, behind);
      case 16:
        append({0xc5, 0xfa, 0x6f, 0x01, 0xc5, 0xfa, 0x7f});  // vmovdqu xmm0
        return put_address(eax, to, behind);
      case 32:
        append({0xc5, 0xfe, 0x6f, 0x01, 0xc5, 0xfe, 0x7f});  // vmovdqu ymm0
        return put_address(eax, to, behind);
      default:
        load(0, Base::rcx, 0);
        store(to, behind, 0);
    }
  }
  // rcx = what is there.
  void load_place(Base base, i32 behind) {
    append({0x48, 0x8b});  // mov rcx, []
    put_address(ecx, base, behind);
  }
  // r8 = the 32 bits of the sum; jumps where that is not below the word in memory.
  size_t offset_unless_below(u32 offset, Base base, i32 behind) {
    append({0x44, 0x8d, 0x80});  // lea r8d, [rax +]
    put_word(offset);
    append({0x44, 0x3b});  // cmp r8d, []
    put_address(r8d, base, behind);
    return jump_if(If::not_below);
  }
  // Words of the row at rcx (and r8), as `which` chooses; and at rcx and as many bytes behind it as `from`
  // says, where the mask has a bit, which it loses.
  void pick_words(unsigned to, unsigned which, bool offset = false) {
    evex({Prefix::p66, Map::m0F38, 0x36}, to, which, {true, offset ? r8d : u8{0}, Base::rcx, 0}, false,
         no_mask, {.indexed = offset});
  }
  void prefetch(u32 behind) {
    append({0x0f, 0x18, 0x89});  // prefetcht0 [rcx +]
    put_word(behind);
  }
  void prefetch_for_writing(u32 behind) {
    append({0x0f, 0x0d, 0x89});  // prefetchw [rcx +]
    put_word(behind);
  }
  void gather_words(unsigned to, unsigned from, unsigned mask) {
    evex({Prefix::p66, Map::m0F38, 0x90}, to, from & 16, {true, static_cast<u8>(from), Base::rcx}, false,
         mask, {.indexed = true});
  }
  void full_mask(unsigned mask) { masks(0x46, mask, mask, mask); }   // kxnorw
  void empty_mask(unsigned mask) { masks(0x47, mask, mask, mask); }  // kxorw

 private:
  static constexpr u8 eax = 0, ecx = 1, esi = 6, r8d = 8, r9d = 9;

  void put(u8 byte) { bytes.push_back(byte); }
  void append(std::initializer_list<u8> some) {
    for (const u8 byte : some) put(byte);  // insert() draws a false warning from GCC 12
  }
  size_t distance_here() {
    put_word(0);
    return bytes.size();
  }
  void set_distance(size_t behind_jump, size_t to) {
    const u32 distance = static_cast<u32>(to - behind_jump);
    std::memcpy(&bytes[behind_jump - sizeof distance], &distance, sizeof distance);
  }
  template <class T>
  void put_whole(T value) {
    bytes.resize(bytes.size() + sizeof value);
    std::memcpy(&bytes[bytes.size() - sizeof value], &value, sizeof value);
  }
  void put_word(u32 value) { put_whole(value); }
  void put_pointer(const void* value) { put_whole(value); }
  void word_of(unsigned vector, unsigned to) {
    evex({Prefix::p66, Map::m0F, 0x7e}, vector, 0, {.number = static_cast<u8>(to)}, false, no_mask,
         {.whole = false});
  }
  void load_part(unsigned to, Base base, i32 behind) {
    if (to >= 8) put(0x44);
    append({0x0f, 0xb7});  // movzx
    put_address(to, base, behind);
  }
  void put_address(unsigned reg, Base base, i32 behind) {
    put(static_cast<u8>(0x80 | (reg & 7) << 3 | static_cast<u8>(base)));
    put_whole(behind);
  }
  // Bits of register numbers are stored inverted; 32-bit elements.
  void evex(HostOp op, unsigned reg, unsigned vvvv, const Place& rm, bool broadcast, unsigned mask,
            Form form = {}) {
    const auto inverted = [](unsigned number, unsigned bit, unsigned at) {
      return static_cast<u8>((~number >> bit & 1) << at);
    };
    const unsigned other = rm.in_memory ? 0 : rm.number, index = form.indexed ? rm.number : other >> 1;
    put(0x62);
    put(static_cast<u8>(inverted(reg, 3, 7) | inverted(index, 3, 6) | inverted(other, 3, 5) |
                        inverted(reg, 4, 4) | static_cast<u8>(op.map)));
    put(static_cast<u8>((~vvvv & 15) << 3 | 4 | static_cast<u8>(op.prefix)));
    put(static_cast<u8>(form.whole << 6 | broadcast << 4 | inverted(vvvv, 4, 3) | mask));
    put(op.code);
    if (form.indexed)
      append({static_cast<u8>((reg & 7) << 3 | 4),
              static_cast<u8>((index & 7) << 3 | static_cast<u8>(rm.base))});
    else if (rm.in_memory)
      put_address(reg, rm.base, rm.behind);
    else
      put(static_cast<u8>(0xc0 | (reg & 7) << 3 | (rm.number & 7)));
  }
  void mask_and_memory(u8 code, unsigned mask, Base base, i32 behind) {
    put(0xc5), put(0xf8), put(code);
    put_address(mask, base, behind);
  }
  void masks(u8 code, unsigned to, unsigned a, unsigned b) {
    put(0xc5), put(static_cast<u8>(0x84 | (~a & 15) << 3)), put(code);
    put(static_cast<u8>(0xc0 | to << 3 | b));
  }
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_HOST_CODE_H
