// Machine code of the host for rows of sixteen lanes: AVX-512 with masks, as far as stretch.cpp needs it.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, "EVEX", "VEX Prefix".
#ifndef KERNCAP_AMD_GPU_ISA_HOST_CODE_H
#define KERNCAP_AMD_GPU_ISA_HOST_CODE_H

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

// The registers that addresses are behind: the first three arguments of a function.
enum class Base : u8 { rdi = 7, rsi = 6, rdx = 2 };
constexpr unsigned host_registers = 32, no_mask = 0;

// Where an instruction's last source is: a vector register, or a word in memory that counts for all lanes.
struct Place {
  bool in_memory = false;
  u8 number = 0;  // of the register
  Base base = Base::rdi;
  i32 behind = 0;
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
    append({0x48, 0x89});                              // mov [], rax
    put_address(eax, base, behind);
  }
  void end() {
    append({0xc5, 0xf8, 0x77, 0xc3});  // vzeroupper; ret
  }

 private:
  static constexpr unsigned eax = 0, ecx = 1, r8d = 8;

  void put(u8 byte) { bytes.push_back(byte); }
  void append(std::initializer_list<u8> some) { bytes.insert(bytes.end(), some); }
  void load_part(unsigned to, Base base, i32 behind) {
    if (to >= 8) put(0x44);
    append({0x0f, 0xb7});  // movzx
    put_address(to, base, behind);
  }
  void put_address(unsigned reg, Base base, i32 behind) {
    put(static_cast<u8>(0x80 | (reg & 7) << 3 | static_cast<u8>(base)));
    bytes.resize(bytes.size() + sizeof behind);
    std::memcpy(&bytes[bytes.size() - sizeof behind], &behind, sizeof behind);
  }
  // Bits of register numbers are stored inverted; 512 bits, 32-bit elements.
  void evex(HostOp op, unsigned reg, unsigned vvvv, const Place& rm, bool broadcast, unsigned mask) {
    const auto inverted = [](unsigned number, unsigned bit, unsigned at) {
      return static_cast<u8>((~number >> bit & 1) << at);
    };
    const unsigned other = rm.in_memory ? 0 : rm.number;
    put(0x62);
    put(static_cast<u8>(inverted(reg, 3, 7) | inverted(other, 4, 6) | inverted(other, 3, 5) |
                        inverted(reg, 4, 4) | static_cast<u8>(op.map)));
    put(static_cast<u8>((~vvvv & 15) << 3 | 4 | static_cast<u8>(op.prefix)));
    put(static_cast<u8>(0x40 | broadcast << 4 | inverted(vvvv, 4, 3) | mask));
    put(op.code);
    if (rm.in_memory)
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
