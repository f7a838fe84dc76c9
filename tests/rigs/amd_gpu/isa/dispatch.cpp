// run_dispatch(): workgroups and their waves, from a dispatch packet and a kernel descriptor.
#include <algorithm>
#include <list>
#include <vector>

#include "code_cache.h"
#include "kernel.h"
#include "mode.h"

namespace amd_gpu {
namespace {

// A wave that waits without s_sleep (for a flag in memory) lets the others run after so many instructions.
constexpr u64 slice = 20000;
// Groups that run side by side where none of them comes to its end: for barriers across the whole grid.
constexpr unsigned most_waves = 2048;

// Between s_set_gpr_idx_on and _off: vector instructions have their registers shifted by what M0 says.
void execute_indexed(Wave& wave, const Instruction& instruction) {
  if (!instruction.mnemonic.starts_with("v_") || instruction.mnemonic.find("lane") != std::string::npos) {
    return instruction.execute(wave, instruction);
  }
  Instruction shifted = instruction;
  const u32 what = wave.scalar[m0] >> 12, by = wave.scalar[m0] & 0xff;
  for (unsigned k = 0; k < 4; k++) {
    const unsigned bit = k == 0 ? 3 : k - 1;  // the destination's is the last
    if ((what >> bit & 1) && shifted.operands[k].is_vector())
      shifted.operands[k].index += static_cast<u16>(by);
  }
  shifted.execute(wave, shifted);
}

// Runs a wave until it ends, waits or has had its slice; the number of instructions is added to `steps`.
void run_wave(Wave& wave, Code& code, u64& steps, const Instruction*& last, u64& last_pc) {
  use_mode(wave.mode);
  const bool tells = logs(5);
  for (u64 left = slice; left && !wave.done && !wave.at_barrier && !wave.pause; left--) {
    last_pc = wave.pc;
    last = nullptr;
    const Instruction& instruction = code.at(wave.pc);
    last = &instruction;
    if (tells) {
      log(5, "%llx: %s exec=%llx", static_cast<unsigned long long>(wave.pc), instruction.text.c_str(),
          static_cast<unsigned long long>(wave.exec()));
    }
    wave.pc += instruction.size_bytes;
    if (wave.indexing)
      execute_indexed(wave, instruction);
    else
      instruction.execute(wave, instruction);
    steps++;
  }
  wave.pause = false;
}

// A workgroup that has started.
struct Group {
  std::vector<u8> lds;
  std::vector<std::unique_ptr<Wave>> waves;

  bool done() const {
    return std::all_of(waves.begin(), waves.end(), [](const auto& wave) { return wave->done; });
  }
  // Once all that still run wait at the barrier, they go on.
  void pass_barrier() {
    for (const auto& wave : waves) {
      if (!wave->done && !wave->at_barrier) return;
    }
    for (const auto& wave : waves) wave->at_barrier = false;
  }
};

class Run {
 public:
  Run(const Dispatch& dispatch, const Kernel& kernel)
      : dispatch_(dispatch), kernel_(kernel), shared_{&dispatch, kernel.private_bytes}, code_(dispatch) {}

  void all() {
    std::list<Group> running;
    while (next_ < kernel_.groups_total() || !running.empty()) {
      if (shared_.cancelled()) throw Stop{FaultKind::cancelled, "the dispatch was cancelled"};
      const bool room = running.empty() || waves_running(running) + kernel_.waves_of_group() <= most_waves;
      if (next_ < kernel_.groups_total() && room) running.push_back(start(next_++));
      for (auto group = running.begin(); group != running.end();) {
        turn(*group);
        group = group->done() ? retire(running, group) : std::next(group);
      }
    }
  }

  u64 steps = 0, last_pc = 0;
  const Instruction* last = nullptr;

 private:
  static size_t waves_running(const std::list<Group>& running) {
    size_t waves = 0;
    for (const Group& group : running) waves += group.waves.size();
    return waves;
  }

  // Until every wave has ended, or has had its slice without getting anywhere.
  void turn(Group& group) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& wave : group.waves) {
        if (wave->done || wave->at_barrier) continue;
        run_wave(*wave, code_, steps, last, last_pc);
        moved |= wave->done || wave->at_barrier;
      }
      group.pass_barrier();
    }
  }

  Group start(u64 number) {
    Group group;
    group.lds.assign(kernel_.lds_bytes, 0);
    const u64 count = kernel_.start_group(number);
    for (u64 k = 0; k < count; k++) {
      if (free_.empty()) {
        group.waves.push_back(std::make_unique<Wave>(shared_));
      } else {
        group.waves.push_back(std::move(free_.back()));
        free_.pop_back();
      }
      Wave& wave = *group.waves.back();
      wave.reset(kernel_.vector_registers, kernel_.accumulation_registers);
      wave.lds = group.lds.data();
      wave.lds_bytes = kernel_.lds_bytes;
      kernel_.start_wave(wave, number, static_cast<u32>(k));
    }
    return group;
  }

  std::list<Group>::iterator retire(std::list<Group>& running, std::list<Group>::iterator group) {
    for (auto& wave : group->waves) free_.push_back(std::move(wave));
    return running.erase(group);
  }

  const Dispatch& dispatch_;
  const Kernel& kernel_;
  Shared shared_;
  Code code_;
  u64 next_ = 0;
  std::vector<std::unique_ptr<Wave>> free_;
};

Fault fault_of(const Stop& stop, u64 pc, const Instruction* last) {
  Fault fault;
  fault.kind = stop.kind;
  fault.pc = pc;
  fault.address = stop.address;
  fault.write = stop.write;
  fault.text = stop.text;
  if (last) fault.text += fault.text.find(last->text) == std::string::npos ? " (" + last->text + ")" : "";
  return fault;
}

}  // namespace

Fault run_dispatch(const Dispatch& dispatch) {
  const HostModeKept kept;
  try {
    const Kernel kernel(dispatch);
    Run run(dispatch, kernel);
    try {
      run.all();
    } catch (const Stop& stop) {
      return fault_of(stop, run.last_pc, run.last);
    }
    log(1, "dispatch done: %llu wave instructions", static_cast<unsigned long long>(run.steps));
    return {};
  } catch (const Stop& stop) {
    return fault_of(stop, 0, nullptr);
  } catch (const std::exception& error) {
    return Fault{.kind = FaultKind::unsupported, .text = std::string("emulator: ") + error.what()};
  }
}

}  // namespace amd_gpu
