// SOPP and what else moves the program counter: branches, calls, barriers, waits, traps, hardware registers.
// Source: AMD Instinct MI300 ISA, "SOPP Instructions", "SOP1 Instructions", "Hardware registers".
#include "mode.h"
#include "scalar.h"

namespace amd_gpu {
namespace {

// The program counter is already behind the branch.
template <class Condition>
void branch(Table& table, std::string_view mnemonic, Condition) {
  table.add_words_only(mnemonic, [](Wave& wave, const Instruction& in) {
    if (Condition{}(wave)) wave.jump(wave.pc + static_cast<u64>(i64{in.immediate()} * 4));
  });
}

void add_branches(Table& t) {
  branch(t, "s_branch", [](const Wave&) { return true; });
  branch(t, "s_cbranch_scc0", [](const Wave& w) { return !w.scc; });
  branch(t, "s_cbranch_scc1", [](const Wave& w) { return w.scc; });
  branch(t, "s_cbranch_vccz", [](const Wave& w) { return w.vcc() == 0; });
  branch(t, "s_cbranch_vccnz", [](const Wave& w) { return w.vcc() != 0; });
  branch(t, "s_cbranch_execz", [](const Wave& w) { return w.exec() == 0; });
  branch(t, "s_cbranch_execnz", [](const Wave& w) { return w.exec() != 0; });
  // No debugger is attached, to the system or to the wave.
  for (const char* name : {"s_cbranch_cdbgsys", "s_cbranch_cdbguser", "s_cbranch_cdbgsys_or_user",
                           "s_cbranch_cdbgsys_and_user"}) {
    branch(t, name, [](const Wave&) { return false; });
  }
}

void add_calls(Table& t) {
  t.add("s_getpc_b64", [](Wave& w, const Instruction& in) { w.put64(in.operand(0), w.pc); });
  t.add("s_setpc_b64", [](Wave& w, const Instruction& in) { w.jump(w.get64(in.operand(0))); });
  t.add("s_swappc_b64", [](Wave& w, const Instruction& in) {
    const u64 target = w.get64(in.operand(1));
    w.put64(in.operand(0), w.pc);
    w.jump(target);
  });
  t.add("s_call_b64", [](Wave& w, const Instruction& in) {
    w.put64(in.operand(0), w.pc);
    w.jump(w.pc + static_cast<u64>(i64{in.immediate()} * 4));
  });
}

// Hardware registers: number in bits 5:0 of the immediate, first bit in 10:6, width - 1 in 15:11.
constexpr unsigned hardware_mode = 1, hardware_shared_bases = 15;

u32 hardware_register(const Wave& wave, unsigned number) {
  switch (number) {
    case hardware_mode:
      return wave.mode;
    case hardware_shared_bases:  // the upper 16 bits of both apertures' upper words
      return high32(private_aperture) >> 16 | (high32(shared_aperture) & 0xffff0000);
    default:
      return 0;  // where the wave runs, and how much it was given: the first of everything
  }
}

void get_register(Wave& wave, const Instruction& in) {
  const u32 which = static_cast<u16>(in.immediate()), width = (which >> 11) + 1;
  const u32 value = hardware_register(wave, which & 63) >> (which >> 6 & 31);
  wave.put32(in.operand(0), width == 32 ? value : value & ((1u << width) - 1));
}

void set_register(Wave& wave, const Instruction& in, u32 value) {
  const u32 which = static_cast<u16>(in.immediate()), first = which >> 6 & 31, width = (which >> 11) + 1;
  if ((which & 63) != hardware_mode) return;
  const u32 mask = (width == 32 ? ~0u : (1u << width) - 1) << first;
  wave.mode = (wave.mode & ~mask) | (value << first & mask);
  use_mode(wave.mode);
}

// VGPR indexing: M0 has the shift in bits 7:0, and in 15:12 what is shifted (three sources, the destination).
void set_index(Wave& wave, u32 index) {
  wave.scalar[m0] = (wave.scalar[m0] & ~0xffu) | (index & 0xff);
}
void set_index_mode(Wave& wave, u32 mode) {
  wave.scalar[m0] = (wave.scalar[m0] & ~0xf000u) | (mode & 15) << 12;
}

void add_indexing(Table& t) {
  t.add_words_only("s_set_gpr_idx_off", [](Wave& w, const Instruction&) { w.indexing = false; });
  t.add_words_only("s_set_gpr_idx_mode", [](Wave& w, const Instruction& in) {
    set_index_mode(w, static_cast<u16>(in.immediate()));
  });
  t.add("s_set_gpr_idx_idx", [](Wave& w, const Instruction& in) { set_index(w, w.get32(in.operand(0))); });
  // SOPC: the mode is in the bits of the second source, which the text shows as gpr_idx(...).
  t.add("s_set_gpr_idx_on", [](Wave& w, const Instruction& in) {
    set_index(w, w.get32(in.operand(0)));
    set_index_mode(w, in.words[0] >> 8 & 15);
    w.indexing = true;
  });
}

void end(Wave& wave, const Instruction&) {
  wave.done = true;
}
void nothing(Wave&, const Instruction&) {}

[[noreturn]] void trap(Wave&, const Instruction& in) {
  const u16 id = static_cast<u16>(in.immediate());
  throw Stop{.kind = FaultKind::trap, .text = "s_trap " + std::to_string(id), .trap_id = id};
}

void send_message(Wave& wave, const Instruction& in) {
  constexpr unsigned interrupt = 1;
  const Dispatch& dispatch = *wave.shared.dispatch;
  if ((in.immediate() & 15) == interrupt && dispatch.interrupt) dispatch.interrupt(wave.scalar[m0]);
}

}  // namespace

void add_control(Table& t) {
  add_branches(t);
  add_calls(t);
  add_indexing(t);
  t.add("s_getreg_b32", get_register);
  t.add("s_setreg_b32", [](Wave& w, const Instruction& in) {
    // hwreg(...) comes first in the text and is no operand.
    set_register(w, in, w.get32(in.operand(in.operand_count - 1)));
  });
  t.add_words_only("s_setreg_imm32_b32",
                   [](Wave& w, const Instruction& in) { set_register(w, in, in.words[1]); });
  t.add_words_only("s_barrier", [](Wave& w, const Instruction&) { w.at_barrier = true; });
  t.add_words_only("s_trap", trap);
  t.add_words_only("s_sendmsg", send_message);
  t.add_words_only("s_sendmsghalt", send_message);
  t.add_words_only("s_sleep", [](Wave& w, const Instruction&) { w.pause = true; });
  t.add_words_only("s_endpgm", end);
  t.add_words_only("s_endpgm_saved", end);
  // Waits, priorities and caches: everything is finished, in order and visible at once.
  for (const char* name :
       {"s_nop", "s_waitcnt", "s_setprio", "s_icache_inv", "s_sethalt", "s_setkill", "s_ttracedata",
        "s_wakeup", "s_incperflevel", "s_decperflevel", "v_nop", "buffer_wbinvl1", "buffer_wbinvl1_vol",
        "buffer_wbl2", "buffer_invl2", "buffer_inv"}) {
    t.add(name, Entry{.execute = nothing, .idle = true, .words_only = true});
  }
}

}  // namespace amd_gpu
