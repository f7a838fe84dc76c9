// run_dispatch(): workgroups and their waves, from a dispatch packet and a kernel descriptor.
#include <algorithm>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
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
// Instructions that a dispatch runs before other threads help: most are done by then, always in one order.
constexpr u64 alone = 500000;

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

// A workgroup that has started.
struct Group {
  u64 number = 0;
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

// A dispatch, and what its threads share.
struct Run {
  const Dispatch& dispatch;
  const Kernel& kernel;
  Shared shared{&dispatch, kernel.private_bytes};
  std::atomic<u64> next = 0, steps = 0;
  std::mutex mutex{};
  Fault fault{};  // the first

  // Of each thread that stops, once: the first one's is the dispatch's, and the waves are of all.
  void fail(Fault found) {
    const std::lock_guard<std::mutex> guard(mutex);
    std::vector<WaveState> waves = std::move(fault.waves);
    waves.insert(waves.end(), std::make_move_iterator(found.waves.begin()),
                 std::make_move_iterator(found.waves.end()));
    if (!shared.failed) fault = std::move(found);
    fault.waves = std::move(waves);
    shared.failed = true;
  }
};

WaveState state_of(const Kernel& kernel, const Group& group, u32 number) {
  const Wave& wave = *group.waves[number];
  WaveState state;
  const Size3 place = kernel.group_position(group.number);
  state.group[0] = place.x, state.group[1] = place.y, state.group[2] = place.z;
  state.wave_in_group = number;
  state.pc = wave.pc, state.exec = wave.exec(), state.vcc = wave.vcc();
  state.flat_scratch = wave.pair(flat_scratch_lo);
  state.m0 = wave.scalar[m0], state.mode = wave.mode;
  state.scc = wave.scc, state.at_barrier = wave.at_barrier;
  state.scalars.assign(wave.scalar, wave.scalar + kernel.scalar_registers_saved);
  state.vectors.assign(wave.vector[0], wave.vector[kernel.vector_registers]);
  state.accumulators.assign(wave.vector[256], wave.vector[256] + kernel.accumulation_registers * lanes);
  return state;
}

// A thread's part: it takes group after group.
class Worker {
 public:
  explicit Worker(Run& run) : run_(run), code_(run.dispatch) {}

  void work(unsigned helpers = 0) {
    try {
      take_groups(helpers);
    } catch (const Stop& stop) {
      if (stop.at) last_ = stop.at;
      const u64 pc = last_ ? last_->pc : pc_;
      if (wave_ && last_ && !last_->steers) wave_->pc = last_->after;
      Fault fault = fault_of(stop, pc, last_);
      fault.waves = waves_at(stop, pc);
      run_.fail(std::move(fault));
    } catch (const std::exception& error) {
      run_.fail({.kind = FaultKind::unsupported, .text = std::string("emulator: ") + error.what()});
    }
    for (std::thread& thread : threads_) thread.join();
    run_.steps += steps_;
  }

 private:
  // Of the groups that this thread has started, as `stop` left them.
  std::vector<WaveState> waves_at(const Stop& stop, u64 pc) const {
    std::vector<WaveState> found;
    for (const Group& group : running_) {
      const size_t first = found.size();
      for (u32 k = 0; k < group.waves.size(); k++) {
        const Wave& wave = *group.waves[k];
        if (wave.done) continue;
        WaveState& state = found.emplace_back(state_of(run_.kernel, group, k));
        if (&wave != wave_ || stop.kind == FaultKind::cancelled) continue;
        state.kind = stop.kind;
        state.trap_id = stop.trap_id;
        if (stop.kind == FaultKind::illegal || stop.kind == FaultKind::unsupported) state.pc = pc;
      }
      if (found.size() == first) continue;
      found[first].first = found.back().last = true;
      found[first].lds = group.lds;
    }
    return found;
  }

  void take_groups(unsigned helpers) {
    for (bool more = true; more || !running_.empty();) {
      if (run_.shared.cancelled()) throw Stop{FaultKind::cancelled, "the dispatch was cancelled"};
      if (more &&
          (running_.empty() || waves_running(running_) + run_.kernel.waves_of_group() <= most_waves)) {
        const u64 number = run_.next++;
        more = number < run_.kernel.groups_total();
        if (more) start(number);
      }
      for (auto group = running_.begin(); group != running_.end();) {
        turn(*group);
        const auto next = std::next(group);
        if (group->done()) rested_.splice(rested_.begin(), running_, group);
        group = next;
      }
      if (more && helpers && steps_ > alone) start_helpers(std::exchange(helpers, 0));
    }
  }

  void start_helpers(unsigned count) {
    try {
      for (; count; count--) threads_.emplace_back([&run = run_] { Worker(run).work(); });
    } catch (const std::system_error&) {  // no more threads: fewer will do
    }
  }

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
        run_wave(*wave);
        moved |= wave->done || wave->at_barrier;
      }
      group.pass_barrier();
    }
  }

  // Until it ends, waits or has had its slice.
  void run_wave(Wave& wave) {
    wave_ = &wave, last_ = wave.last;
    if (std::exchange(mode_, wave.mode) != wave.mode) use_mode(wave.mode);
    const bool tells = logs(5);
    u64 left = slice;
    while (left && !wave.done && !wave.at_barrier && !wave.pause) {
      pc_ = wave.pc;
      const bool singly = wave.indexing || tells;
      const Instruction* previous = std::exchange(last_, nullptr);
      const Instruction& in = singly ? code_.at(wave.pc) : code_.behind(previous, wave.pc);
      if (in.steers || singly) {
        run_alone(wave, in, tells);
        const u64 done = in.count * (1 + std::exchange(wave.rounds, 0));
        left -= left < done ? left : done;
      } else {
        left = run_block(wave, in, left);
        wave.pc = last_->after;
      }
    }
    steps_ += slice - left;
    wave.pause = false;
    wave.last = last_, mode_ = wave.mode;
    wave_ = nullptr;
  }

  void run_alone(Wave& wave, const Instruction& in, bool tells) {
    if (tells) {
      log(5, "%llx: %s exec=%llx", static_cast<unsigned long long>(wave.pc), in.text.c_str(),
          static_cast<unsigned long long>(wave.exec()));
    }
    last_ = &in, wave.pc = in.after;
    if (wave.indexing)
      execute_indexed(wave, in);
    else
      in.execute(wave, in);
  }

  // Instructions one behind the other that don't steer, at most `left`; gives what is left. Each is called
  // from a place of its own, which a loop comes back to: by that the host foretells where the call leads.
  // From one place for all it would be wrong nearly each time, which takes longer than most instructions do.
  u64 run_block(Wave& wave, const Instruction& first, u64 left) {
    const Instruction* in = &first;
#define PLACE(k)                                                                        \
  case k:                                                                               \
    last_ = in;                                                                         \
    in->execute(wave, *in);                                                             \
    in = std::atomic_ref<const Instruction*>(in->next).load(std::memory_order_acquire); \
    left -= left < last_->count ? left : last_->count;                                  \
    if (!left || !in) return left;                                                      \
    [[fallthrough]];
#define PLACES_4(k) PLACE(k) PLACE(k + 1) PLACE(k + 2) PLACE(k + 3)
#define PLACES_16(k) PLACES_4(k) PLACES_4(k + 4) PLACES_4(k + 8) PLACES_4(k + 12)
#define PLACES_64(k) PLACES_16(k) PLACES_16(k + 16) PLACES_16(k + 32) PLACES_16(k + 48)
#define PLACES PLACES_64(0) PLACES_64(64) PLACES_64(128) PLACES_64(192)
    for (u64 place = wave.pc / 4 % 256;; place = 0) {
      switch (place) {
        PLACES
        default:
          continue;
      }
    }
  }

  void start(u64 number) {
    const Kernel& kernel = run_.kernel;
    if (rested_.empty()) rested_.emplace_front();
    running_.splice(running_.end(), rested_, rested_.begin());
    Group& group = running_.back();
    group.number = number;
    group.lds.assign(kernel.lds_bytes, 0);
    const Size3 position = kernel.group_position(number);
    group.waves.resize(kernel.waves_at(position));
    const u32 vectors = code_.vectors_named(), accumulators = code_.accumulators_named();
    for (u32 k = 0; k < group.waves.size(); k++) {
      const bool is_new = !group.waves[k];
      if (is_new) group.waves[k] = std::make_unique<Wave>(run_.shared);
      Wave& wave = *group.waves[k];
      // Those that no instruction names are still as they were.
      wave.reset(
          is_new ? kernel.vector_registers : std::min(kernel.vector_registers, vectors),
          is_new ? kernel.accumulation_registers : std::min(kernel.accumulation_registers, accumulators));
      wave.use_lds(group.lds.data(), kernel.lds_bytes);
      kernel.start_wave(wave, position, k);
    }
  }

  Run& run_;
  Code code_;
  u64 steps_ = 0;
  const Instruction* last_ = nullptr;  // null if pc_ has no instruction
  u64 pc_ = 0;
  Wave* wave_ = nullptr;               // that runs
  u32 mode_ = ~u32{0};                 // that the host's arithmetic has now
  std::list<Group> running_, rested_;  // those that have ended lend their memory to the next
  std::vector<std::thread> threads_;
};

}  // namespace

Fault run_dispatch(const Dispatch& dispatch) {
  const HostModeKept kept;
  try {
    const Kernel kernel(dispatch);
    Run run{dispatch, kernel};
    Worker(run).work(dispatch.threads - 1);
    if (run.fault.kind == FaultKind::none)
      log(1, "dispatch done: %llu wave instructions", static_cast<unsigned long long>(run.steps));
    return run.fault;
  } catch (const Stop& stop) {
    return fault_of(stop, 0, nullptr);
  } catch (const std::exception& error) {
    return Fault{.kind = FaultKind::unsupported, .text = std::string("emulator: ") + error.what()};
  }
}

}  // namespace amd_gpu
