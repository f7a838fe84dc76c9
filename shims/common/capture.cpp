#include "common/glibc_floor.h"

#include "common/capture.h"

#include <cstring>
#include <new>

#include "common/device.h"
#include "common/engine.h"
#include "common/gate.h"
#include "common/launch_capture.h"
#include "common/quiet_signals.h"
#include "common/writer_pool.h"

namespace kerncap::capture {

std::atomic<uint64_t> pass_below{0};
std::atomic<uint64_t> counts_due_ns{UINT64_MAX};
std::atomic<uint32_t> graph_choices{0};
__thread uint32_t thread_choices = 0;
__thread uint32_t thread_configs = 0;

namespace {

// Adds what the slow path took to the overhead that COUNTS tells.
class Overhead {
 public:
  explicit Overhead(Engine& engine) : engine_(engine), started_(now_ns()) {}
  ~Overhead() { engine_.overhead_ns.fetch_add(now_ns() - started_, std::memory_order_relaxed); }

 private:
  Engine& engine_;
  uint64_t started_;
};

// A kernel of the hook's is listed where the hook has named its configuration, and in graphs, whose launches
// the hook does not see.
bool is_listed(Engine& engine, const Launch& launch, Interest interest, Wanted* wanted) {
  bool is_in_graph = launch.route.compare(0, 13, "cuGraphLaunch") == 0;
  std::string config;
  if (interest == Interest::owned && thread_configs != 0 && !is_in_graph) {
    config.swap(config_here());
    thread_configs = 0;
  } else if (interest != Interest::watched && (interest != Interest::owned || !is_in_graph)) {
    return false;
  }
  wanted->row = engine.selection.listed(launch, wanted->range, config);
  if (engine.selection.needs_stack(*launch.kernel))
    engine.selection.set_stack(*launch.kernel, python_stack_here());
  return true;
}

// The command line is asked, and what kernels have printed must not come out because that takes its time.
void meet(Engine& engine, const Launch& launch) {
  const bool holds = !engine.conf().list_only;
  if (holds) device()->hold_text();
  try {
    engine.meet(*launch.kernel);
  } catch (const std::bad_alloc&) {
    if (holds) device()->end_text(launch, false);
    throw;
  }
  if (holds) device()->end_text(launch, false);
}

bool wants_this(Engine& engine, const Launch& launch) {
  Kernel& kernel = *launch.kernel;
  Wanted& wanted = wanted_here();
  wanted = Wanted();
  if (arm::has_changed()) engine.see_generation(&kernel);
  if (!engine.open()) return false;
  engine.count_when_due();
  wanted.range = launch.stopped != nullptr ? launch.stopped->range : ranges::here();
  if ((thread_choices != 0 || graph_choices.load() != 0) && engine.take_choice(launch, &wanted.choice)) {
    wanted.chosen = true;
    wanted.kernel = &kernel;
    return true;
  }
  if (kernel.interest.load(std::memory_order_acquire) == Interest::unknown) meet(engine, launch);
  Interest interest = kernel.interest.load(std::memory_order_acquire);
  if (engine.conf().list_only) return is_listed(engine, launch, interest, &wanted);
  if (interest != Interest::watched) return false;
  if (device()->is_capturing()) {
    engine.selection.filter(kernel, "graph capture");
    return false;
  }
  if (engine.conf().range && !engine.wants_range(wanted.range)) {
    engine.selection.filter(kernel, word::filter::range);
    return false;
  }
  if (!engine.selection.wants(launch, wanted.range, engine.occurrence_of(launch), &wanted.ordinal,
                              &wanted.position))
    return false;
  if (engine.conf().graph) wanted.choice.annotation = engine.annotation_of(launch);
  wanted.kernel = &kernel;
  return true;
}

// --list: two marks on the launch's stream, read when they were passed.
int timed(Engine& engine, const Launch& launch, Call call, void* context) noexcept {
  bool marked = !device()->is_capturing();
  if (marked) device()->mark_begin(launch, wanted_here().row);
  int status = 0;
  {
    gate::Pass pass;
    status = call(context);
  }
  if (!marked) return status;
  device()->mark_end(launch);
  try {
    engine.take_times();
  } catch (const std::bad_alloc&) {
    // Some are not told.
  }
  return status;
}

}  // namespace

bool armed() noexcept {
  return engine() != nullptr;
}

bool lists_only() noexcept {
  Engine* engine = kerncap::engine();
  return engine != nullptr && engine->conf().list_only;
}

void profiler_comes() noexcept {
  if (lists_only()) device()->leave_profiler();
}

void memory_comes() noexcept {
  if (!gate::Own::active() && lists_only() && timeline::is_on()) device()->start_profiler();
}

bool may_be_armed() noexcept {
  return arm::is_watched();
}

bool wants(const Launch& launch) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr || launch.kernel == nullptr || gate::Own::active()) return false;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    Overhead overhead(*engine);
    return wants_this(*engine, launch);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int run(const Launch& launch, Call call, void* context) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return call(context);
  if (engine->conf().list_only) return timed(*engine, launch, call, context);
  uint64_t started = now_ns();
  RealLaunch real(call, context);
  {
    KeepErrno keep;
    QuietSignals quiet;
    LaunchCapture attempt(*engine, *device(), launch, real, std::move(wanted_here()));
    try {
      attempt.take();
    } catch (const std::bad_alloc&) {
      // Its end says so.
    }
  }
  real.once();
  engine->overhead_ns.fetch_add(now_ns() - started - real.call_ns(), std::memory_order_relaxed);
  if (real.stop_after) engine->stop();
  return real.status();
}

GraphTurn graph_launched(int64_t* known) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return {};
  try {
    return engine->selection.count_graph(known);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

GraphWish graph_wish(const GraphTurn& turn) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr || engine->conf().list_only) return GraphWish::nothing;
  if (!engine->conf().graph) return GraphWish::kernels;
  return engine->is_asked_for(turn) ? GraphWish::range : GraphWish::nothing;
}

void graph_ended(const GraphTurn& turn) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr || !engine->is_asked_for(turn)) return;
  KeepErrno keep;
  QuietSignals quiet;
  const bool is_done = engine->selection.end_graph();
  if (is_done && engine->conf().stop) engine->stop();
}

bool asks_for_nodes() noexcept {
  if (graph_choices.load(std::memory_order_relaxed) == 0) return false;
  Engine* engine = kerncap::engine();
  return engine != nullptr && engine->conf().graph.has_value();
}

void became_node(const Kernel& kernel, const void* node) noexcept {
  Engine* engine = kerncap::engine();
  try {
    if (engine != nullptr) engine->became_node(kernel, node);
  } catch (const std::bad_alloc&) {
    // Captured without what the hook knows of it.
  }
}

bool close_for_stops(const std::vector<Launch>& launches, Stopped* stopped, std::string* why) noexcept {
  Engine* engine = kerncap::engine();
  Device& own = *device();
  if (engine == nullptr) return false;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    stopped->python_stack = python_stack_here();
    stopped->range = ranges::here();
    stopped->occurrence = engine->occurrence_here();
    if (!gate::close(engine->conf().drain_timeout_ns())) {
      *why = "another thread did not come back from a driver call before its graph's launch";
      return false;
    }
    bool ready = own.enter(launches.front(), why);
    if (ready) {
      std::string let_through;
      const Poll poll = drain_device(*engine, own, why, &let_through);
      ready = poll == Poll::done && own.prepare(why);
      if (ready) own.has_kernels(launches.front().device);
      // The driver may load a variable's module when it is asked for it.
      const std::string arch = own.describe(launches.front().device).arch;
      for (const Launch& launch : launches)
        if (ImageFacts known = engine->facts_of(*launch.kernel, arch); ready)
          own.globals(launch, known.globals);
      own.leave();
    }
    if (!ready) gate::open();
    return ready;
  } catch (const std::bad_alloc&) {
    own.leave();
    gate::open();
    return false;
  }
}

void refuse(const Kernel* kernel, const char* reason) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    engine->session.failed(kernel != nullptr ? kernel->demangled : std::string(), reason);
    Wanted wanted = std::move(wanted_here());
    wanted_here() = Wanted();
    if (kernel == nullptr || wanted.kernel != kernel) return;
    Launch launch;
    launch.kernel = wanted.kernel;
    if (wanted.chosen)
      engine->set_result(wanted.choice.token, Fate::failed, reason);
    else
      engine->selection.settle(launch, Outcome::failed, 0, reason);
  } catch (const std::bad_alloc&) {
    // Said nowhere, then.
  }
}

void refuse_all(const std::string& reason) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    if (engine->open()) engine->session.failed(std::string(), reason);
  } catch (const std::bad_alloc&) {
    // Said nowhere, then.
  }
}

void saw_error(int status) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr || !is_fault(status) || engine->fault_seen.load()) return;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    engine->saw_fault(device()->error_text(status));
  } catch (const std::bad_alloc&) {
    // Said nowhere, then.
  }
}

void reset_after_fork() noexcept {
  KeepErrno keep;
  gate::reset_after_fork();
  MemoryMap::reset_after_fork();
  reset_writers_after_fork();
  last_launches::reset();
  thread_choices = thread_configs = 0;
  ranges::reset_after_fork();
  graph_choices.store(0);
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return;
  try {
    choices_here().clear();
    device()->reset_after_fork();
    engine->reset_after_fork();
  } catch (const std::bad_alloc&) {
    // The child then opens no folder, and captures nothing.
  }
}

void own(const char* name) noexcept {
  Engine* engine = kerncap::engine();
  try {
    if (engine != nullptr && name != nullptr) engine->own(name);
  } catch (const std::bad_alloc&) {
    // Both select it then; the hook's annotation still joins.
  }
}

void choose(const char* name, uint64_t token, const char* annotation) noexcept {
  if (!armed() || name == nullptr) return;
  try {
    choices_here().push_back({name, token, annotation != nullptr ? annotation : ""});
    ++thread_choices;
  } catch (const std::bad_alloc&) {
    // `outcome` says that it met no launch.
  }
}

void choose_in_graph(const char* name, uint64_t token, const char* annotation) noexcept {
  Engine* engine = kerncap::engine();
  try {
    if (engine != nullptr && name != nullptr)
      engine->choose_in_graph({name, token, annotation != nullptr ? annotation : ""});
  } catch (const std::bad_alloc&) {
    // Not captured, then.
  }
}

void choose_types(uint64_t token, const char* types) noexcept {
  Engine* engine = kerncap::engine();
  try {
    if (engine != nullptr && types != nullptr) engine->set_types(token, types);
  } catch (const std::bad_alloc&) {
    // --when nonfinite then refuses by name.
  }
}

long count_launch(bool starts, bool ends, uint64_t occurrence) noexcept try {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return LaunchSpan::before;
  if (occurrence == 0) occurrence = engine->occurrence_here();
  return engine->selection.count_launch(starts, ends, occurrence);
} catch (const std::bad_alloc&) {
  return LaunchSpan::before;
}

bool is_range_counted() noexcept {
  Engine* engine = kerncap::engine();
  return engine != nullptr && engine->selection.is_range_counted();
}

bool is_disarmed() noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return false;
  try {
    if (arm::has_changed()) engine->see_generation(nullptr);
  } catch (const std::bad_alloc&) {
    // The next launch sees it.
  }
  return engine->selection.is_disarmed();
}

void name_config(const char* text) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr || text == nullptr || !engine->conf().list_only) return;
  try {
    config_here() = text;
    thread_configs = 1;
  } catch (const std::bad_alloc&) {
    // Listed by nobody, then.
  }
}

long ranges_text(char* text, unsigned long size) noexcept {
  if (!ranges::is_told()) return -1;
  try {
    std::string all;
    for (const std::string& name : ranges::names_of(ranges::here())) all += name + "\n";
    if (text != nullptr && size > 0) std::memcpy(text, all.data(), all.size() < size ? all.size() : size);
    return static_cast<long>(all.size());
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

Fate outcome(uint64_t token, std::string* reason) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return Fate::not_launched;
  try {
    Result result;
    if (engine->take_result(token, &result)) {
      *reason = result.reason;
      return result.fate;
    }
    engine->forget_graph_choice(token);
    std::vector<Choice>& here = choices_here();
    for (size_t i = 0; i < here.size(); ++i) {
      if (here[i].token != token) continue;
      here.erase(here.begin() + static_cast<ptrdiff_t>(i));
      --thread_choices;
      break;
    }
  } catch (const std::bad_alloc&) {
    // As if it had met none.
  }
  return Fate::not_launched;
}

bool may_want_in_graph(Kernel& kernel) noexcept {
  Engine* engine = kerncap::engine();
  if (engine == nullptr) return false;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    if (arm::has_changed()) engine->see_generation(&kernel);
    if (!engine->open()) return false;
    if (kernel.interest.load(std::memory_order_acquire) == Interest::unknown) engine->meet(kernel);
    Interest interest = kernel.interest.load(std::memory_order_acquire);
    if (interest != Interest::owned) return interest == Interest::watched;
    return graph_choices.load(std::memory_order_relaxed) != 0 && engine->has_graph_choice(kernel);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace kerncap::capture
