// What three parties write: the hardware the control stack, amdkfd's trap handler the registers, ROCr's trap
// handler why a wave stopped. Source: amdkfd's cwsr_trap_handler_gfx9.asm and kfd_mqd_manager_v9.c, ROCr's
// trap_handler.s, and how ROCdbgapi reads it (architecture.cpp: gfx9_architecture_t, gfx90a_t,
// gfx9_4_architecture_t, gfx950_t; queue.cpp).
//
// Left 0: the two words that begin the control stack and where scratch is, which readers skip, and the host
// trap's and replay's bits, which need a trap handler that runs.
#include "context_save.h"

#include <linux/kfd_ioctl.h>

#include <algorithm>
#include <cstring>

#include "driver.h"

namespace amd_gpu {
namespace {

constexpr uint32_t lanes = 64, word = 4, hardware_words = 32, end_bytes = 64;
constexpr uint32_t aliases = 6, most_named = 108;  // scalar registers that are flat_scratch, xnack_mask, vcc

constexpr uint32_t status_scc = 1 << 0, status_trap_enabled = 1 << 6, status_execz = 1 << 9,
                   status_vccz = 1 << 10, status_in_barrier = 1 << 12, status_halt = 1 << 13,
                   status_valid = 1 << 16;
constexpr uint32_t traps_memory = 1 << 8, traps_illegal = 1 << 11, traps_xnack = 1 << 28;
constexpr uint32_t ttmp6_stopped = 1 << 30, ttmp6_trap_shift = 25;
constexpr uint32_t ttmp11_set_up = 1U << 31, ttmp11_pc_shift = 7, ttmp11_packet_shift = 6;
constexpr uint32_t relaunch_state = 1U << 31, relaunch_last = 1 << 16, relaunch_first = 1 << 17;

enum Hardware { m0_word, pc_word, exec_word = 3, status_word = 5, traps_word, mode_word = 9, ttmps = 16 };

uint32_t low(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

uint32_t lds_unit() {
  return driver().config.target == Target::gfx950 ? 1280 : 512;
}

// Registers and LDS are allocated in blocks, and the relaunch word counts these.
uint32_t relaunch_word(const WaveState& wave, size_t lds_bytes) {
  const auto vectors = static_cast<uint32_t>(wave.vectors.size() / lanes);
  const auto accumulators = static_cast<uint32_t>(wave.accumulators.size() / lanes);
  const auto scalars = static_cast<uint32_t>(wave.scalars.size());
  const auto lds = static_cast<uint32_t>((lds_bytes + lds_unit() - 1) / lds_unit());
  return relaunch_state | ((vectors + accumulators) / 8 - 1) | scalars / 16 << 6 | lds << 9 |
         (vectors / 4 - 1) << 24;
}

uint32_t traps_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::memory:
      return traps_memory | traps_xnack;
    case FaultKind::aperture:
      return traps_memory;
    case FaultKind::illegal:
    case FaultKind::unsupported:
      return traps_illegal;
    default:
      return 0;
  }
}

// The trap temporaries. Until the runtime has the GPU set them up, gfx90a has no word of the workgroup there.
void write_ttmps(const Queue& queue, const WaveState& wave, uint32_t* ttmp, uint64_t& pc) {
  const bool is_older = driver().config.target == Target::gfx90a;
  const bool stopped = wave.kind != FaultKind::none;
  if (!is_older || driver().debug.sets_up_ttmps()) {
    if (is_older) {
      ttmp[6] = queue.packet_index;
    } else {
      ttmp[11] = queue.packet_index << ttmp11_packet_shift;
    }
    std::copy(wave.group, wave.group + 3, ttmp + 8);
    ttmp[11] |= wave.wave_in_group;
  }
  if (!stopped) return;
  ttmp[6] |= ttmp6_stopped | std::min(wave.trap_id, 15U) << ttmp6_trap_shift;
  if (!is_older) {
    ttmp[11] |= ttmp11_set_up;
    return;
  }
  // It is parked at a place in the trap handler that can be halted at.
  ttmp[7] = low(pc);
  ttmp[11] |= (high(pc) & 0xffff) << ttmp11_pc_shift;
  pc = queue.device->trap_handler;
}

void write_hardware_words(const Queue& queue, const WaveState& wave, uint32_t* words) {
  uint64_t pc = wave.pc;
  write_ttmps(queue, wave, words + ttmps, pc);
  words[m0_word] = wave.m0;
  words[pc_word] = low(pc), words[pc_word + 1] = high(pc) & 0xffff;
  words[exec_word] = low(wave.exec), words[exec_word + 1] = high(wave.exec);
  words[status_word] = status_valid | status_trap_enabled | (wave.scc ? status_scc : 0) |
                       (wave.exec == 0 ? status_execz : 0) | (wave.vcc == 0 ? status_vccz : 0) |
                       (wave.at_barrier ? status_in_barrier : 0) |
                       (wave.kind != FaultKind::none ? status_halt : 0);
  words[traps_word] = traps_of(wave.kind);
  words[mode_word] = wave.mode;
}

std::vector<uint32_t> scalars_of(const WaveState& wave) {
  std::vector<uint32_t> scalars = wave.scalars;
  uint32_t* const named = scalars.data() + std::min<size_t>(scalars.size(), most_named) - aliases;
  std::fill(named, scalars.data() + scalars.size(), 0);
  named[0] = low(wave.flat_scratch), named[1] = high(wave.flat_scratch);
  named[4] = low(wave.vcc), named[5] = high(wave.vcc);
  return scalars;
}

size_t bytes_of(const WaveState& wave, size_t lds_bytes) {
  const size_t lds = (lds_bytes + lds_unit() - 1) / lds_unit() * lds_unit();
  const size_t registers = wave.vectors.size() + wave.accumulators.size() + wave.scalars.size();
  return (registers + hardware_words) * word + (wave.first ? lds : 0) + end_bytes;
}

// From the first byte on: vector registers, scalar registers, the hardware's, LDS.
void write_wave(const Queue& queue, const WaveState& wave, uint8_t* to) {
  const auto put = [&to](const std::vector<uint32_t>& words) {
    std::memcpy(to, words.data(), words.size() * word);
    to += words.size() * word;
  };
  put(wave.vectors);
  put(wave.accumulators);
  put(scalars_of(wave));
  std::vector<uint32_t> hardware(hardware_words, 0);
  write_hardware_words(queue, wave, hardware.data());
  put(hardware);
  if (wave.first) std::memcpy(to, wave.lds.data(), wave.lds.size());
}

}  // namespace

void save_context(const Queue& queue) {
  if (queue.save_area == 0) return;
  auto* const area = reinterpret_cast<uint8_t*>(queue.save_area);
  std::vector<uint32_t> stack = {0, 0};
  std::vector<size_t> starts;  // of the waves, in bytes before the end of what is used
  size_t used = 0, lds_bytes = 0;
  uint32_t state = 0;
  for (const WaveState& wave : queue.waves) {
    if (wave.first) lds_bytes = wave.lds.size();
    const uint32_t next = relaunch_word(wave, lds_bytes);
    // A GPU has no more waves than its area has room for.
    const size_t bytes = bytes_of(wave, lds_bytes);
    if (queue.control_stack_bytes + used + bytes > queue.save_area_bytes ||
        sizeof(kfd_context_save_area_header) + (stack.size() + 2) * word > queue.control_stack_bytes) {
      break;
    }
    if (next != state) stack.push_back(state = next);
    stack.push_back((wave.first ? relaunch_first : 0) | (wave.last ? relaunch_last : 0));
    used += bytes;
    starts.push_back(used);
  }
  // The first wave of the stack is the last one of the area.
  uint8_t* const end = area + queue.control_stack_bytes + used;
  std::memset(area + queue.control_stack_bytes, 0, used);
  for (size_t i = 0; i < starts.size(); ++i) write_wave(queue, queue.waves[i], end - starts[i]);
  const auto stack_bytes = static_cast<uint32_t>(starts.empty() ? 0 : stack.size() * word);
  std::memcpy(area + queue.control_stack_bytes - stack_bytes, stack.data(), stack_bytes);
  auto& header = *reinterpret_cast<kfd_context_save_area_header*>(area);
  header.wave_state.control_stack_offset = queue.control_stack_bytes - stack_bytes;
  header.wave_state.control_stack_size = stack_bytes;
  header.wave_state.wave_state_offset = static_cast<uint32_t>(queue.control_stack_bytes + used);
  header.wave_state.wave_state_size = static_cast<uint32_t>(used);
}

}  // namespace amd_gpu
