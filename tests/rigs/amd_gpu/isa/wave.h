// The state of one wavefront of 64 lanes, and how it reaches memory.
#ifndef KERNCAP_AMD_GPU_ISA_WAVE_H
#define KERNCAP_AMD_GPU_ISA_WAVE_H

#include <cstddef>
#include <cstring>
#include <memory>

#include "../gpu.h"
#include "instruction.h"

namespace amd_gpu {

// A buffer descriptor with this base is scratch: the driver's side hands out no addresses there.
// Kernels for gfx90a get it in their first four scalar registers and may add a wave's offset to it.
constexpr u64 scratch_descriptor_base = 0x5c0000000000;

// Thrown by an instruction that cannot be carried out; ends the dispatch.
struct Stop {
  FaultKind kind;
  std::string text{};
  u64 address = 0;
  bool write = false;
  u32 trap_id = 0;
  const Instruction* at = nullptr;  // of several that run as one, if not the last
};
[[noreturn]] void stop_unreachable(const PageTable& memory, u64 va, bool write);
[[noreturn]] void stop_aperture(const char* what, u64 va, bool write);

// What all waves of a dispatch share.
struct Shared {
  const Dispatch* dispatch;
  u32 private_bytes = 0;             // scratch of one lane
  std::atomic<bool> failed = false;  // another wave has ended the dispatch
  bool cancelled() const {
    return failed.load(std::memory_order_relaxed) ||
           (dispatch->cancelled && dispatch->cancelled->load(std::memory_order_relaxed));
  }
};

// Recently used mappings, so that a lane's access is a comparison and not a search under a lock.
class Reach {
 public:
  explicit Reach(const PageTable& memory) : memory_(&memory) {}

  // Before the lanes of an instruction: mappings are stable only between map and unmap.
  void refresh() {
    const u64 now = memory_->generation();
    if (now == generation_) return;
    generation_ = now;
    recent_ = {};
  }
  // The host's view of `bytes` at `va`, or null where they are not in one mapping.
  u8* inside_one(u64 va, u64 bytes, bool write) {
    const Mapping& first = recent_[0];
    if (first.holds(va, bytes) && (!write || first.writable)) return first.host + (va - first.device_va);
    return search(va, bytes, write);
  }
  // The same without a fault, of what was used before: null also where nothing is mapped, or read-only.
  u8* inside_one_if(u64 va, u64 bytes, bool write = true) const {
    const Mapping* found = used_before(va, bytes, write);
    return found ? found->host + (va - found->device_va) : nullptr;
  }
  const Mapping* used_before(u64 va, u64 bytes, bool write) const {
    for (const Mapping& mapping : recent_) {
      if (mapping.holds(va, bytes) && (mapping.writable || !write)) [[likely]]
        return &mapping;
    }
    return nullptr;
  }
  void read(u64 va, void* to, u32 bytes);
  void write(u64 va, const void* from, u32 bytes);
  // Where in this the mappings used before are.
  static constexpr unsigned mappings = 4;
  static constexpr size_t offset_of_mappings() { return offsetof(Reach, recent_); }
  const Mapping* mapping(size_t number) const { return &recent_[number]; }

 private:
  u8* search(u64 va, u64 bytes, bool write);

  const PageTable* memory_;
  u64 generation_ = 0;
  std::array<Mapping, mappings> recent_{};
};

// What machine code of the host reaches by its offset.
struct Registers {
  explicit Registers(const PageTable& memory) : reach(memory) { last_reached.fill(reach.mapping(0)); }

  alignas(64) u32 vector[512][lanes];                // v0 to v255, a0 to a255
  alignas(64) u32 scalar[scalar_registers + lanes];  // whole rows, and a pair may begin at the last
  bool scc = false;
  u8* lds = nullptr;
  u32 lds_bytes = 0;
  u32 lds_words_end = 0,
      lds_rows_end = 0;  // from these addresses on LDS has no whole word, no sixteen of them
  void use_lds(u8* at, u32 bytes) {
    lds = at, lds_bytes = bytes;
    lds_words_end = bytes < 4 ? 0 : bytes - 3, lds_rows_end = bytes < 64 ? 0 : bytes - 63;
  }
  Reach reach;
  std::array<const Mapping*, 16> last_reached;  // of `reach`, by loads of a stretch
  const Instruction* called = nullptr;          // by a stretch
};

struct Wave : Registers {
  explicit Wave(const Shared& shared) : Registers(*shared.dispatch->memory), shared(shared) {}
  // Registers as the hardware would hand them to a new wave, made reproducible: zero.
  void reset(u32 vector_registers, u32 accumulation_registers);

  const Shared& shared;
  u64 pc = 0;    // set where an instruction steers, and between turns
  u32 mode = 0;  // the MODE register; mode.h
  u64 carry_out = 0;
  u32 rounds = 0;         // of a loop, that its instructions ran as one
  bool indexing = false;  // s_set_gpr_idx_on: M0 shifts the registers of vector instructions
  bool done = false, at_barrier = false;
  const Instruction* last = nullptr;  // that it executed before it waited
  u64 waits_for_pass = 0;             // of the barrier of ds_gws_barrier that it is at
  bool pause = false;                 // lets the other waves run: it waits for something, or has run for long

  u64 pair(u16 index) const {
    u64 value;
    std::memcpy(&value, &scalar[index], sizeof value);
    return value;
  }
  void set_pair(u16 index, u64 value) { std::memcpy(&scalar[index], &value, sizeof value); }
  u64 exec() const { return pair(exec_lo); }
  void set_exec(u64 value) { set_pair(exec_lo, value); }
  u64 vcc() const { return pair(vcc_lo); }

  // Scalar registers by number, with those that are computed.
  u32 read_scalar(u16 index) const { return index < scalar_registers ? scalar[index] : read_special(index); }
  u64 read_scalar_pair(u16 index) const;
  // Operands of scalar instructions.
  u32 get32(const Operand& operand) const {
    if (operand.is_scalar() && operand.index < scalar_registers) [[likely]]
      return scalar[operand.index];
    return operand.is_constant() ? operand.constant->row[0] : get_other32(operand);
  }
  u64 get64(const Operand& operand) const {
    if (operand.is_scalar() && operand.words == 2 && operand.index < scalar_registers) [[likely]]
      return pair(operand.index);
    return get_other64(operand);
  }
  void put32(const Operand& operand, u32 value) { scalar[operand.index] = value; }
  void put64(const Operand& operand, u64 value) { set_pair(operand.index, value); }

  // A lane's own bytes of scratch, or LDS: stops the dispatch where they are not inside.
  u8* scratch_at(u32 offset, u32 bytes, unsigned lane, bool write);
  u8* lds_at(u64 offset, u32 bytes, bool write) {
    if (offset + bytes > lds_bytes) stop_aperture("LDS", shared_aperture | offset, write);
    return lds + offset;
  }
  void jump(u64 target);

 private:
  u32 read_special(u16 index) const;
  u64 get_other64(const Operand& operand) const;
  u32 get_other32(const Operand& operand) const {
    return operand.is_scalar() ? read_special(operand.index) : 0;
  }

  std::unique_ptr<u8[]> scratch_;  // made at the first access: most kernels have a size and no use for it
};

// For each active lane, in order.
template <class Body>
inline void for_active(const Wave& wave, Body body) {
  for (u64 left = wave.exec(); left; left &= left - 1) body(static_cast<unsigned>(std::countr_zero(left)));
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_WAVE_H
