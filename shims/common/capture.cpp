#include "common/glibc_floor.h"

#include "common/capture.h"

#include <cstring>
#include <new>

#include "common/capture_steps.h"
#include "common/device.h"
#include "common/drain.h"
#include "common/gate.h"
#include "common/process_capture.h"
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
  explicit Overhead(ProcessCapture& process) : process_(process), started_(now_ns()) {}
  ~Overhead() { process_.overhead_ns.fetch_add(now_ns() - started_, std::memory_order_relaxed); }

 private:
  ProcessCapture& process_;
  uint64_t started_;
};

// A kernel of the hook's is listed where the hook has named its configuration, and in graphs, whose launches
// the hook does not see.
bool is_listed(ProcessCapture& process, const Launch& launch, Interest interest, Wanted* wanted) {
  bool is_in_graph = launch.route.compare(0, 13, "cuGraphLaunch") == 0;
  std::string config;
  if (interest == Interest::owned && thread_configs != 0 && !is_in_graph) {
    config.swap(config_here());
    thread_configs = 0;
  } else if (interest != Interest::watched && (interest != Interest::owned || !is_in_graph)) {
    return false;
  }
  wanted->row = process.selection.listed(launch, wanted->range, config);
  if (process.selection.needs_stack(*launch.kernel))
    process.selection.set_stack(*launch.kernel, python_stack_here());
  return true;
}

// The command line is asked, and what kernels have printed must not come out because that takes its time.
void meet(ProcessCapture& process, const Launch& launch) {
  const bool holds = !process.conf().list_only;
  if (holds) device()->hold_text();
  try {
    process.meet(*launch.kernel);
  } catch (const std::bad_alloc&) {
    if (holds) device()->end_text(launch, false);
    throw;
  }
  if (holds) device()->end_text(launch, false);
}

bool wants_this(ProcessCapture& process, const Launch& launch) {
  Kernel& kernel = *launch.kernel;
  Wanted& wanted = wanted_here();
  wanted = Wanted();
  if (arm::has_changed()) process.see_generation(&kernel);
  if (!process.open()) return false;
  process.count_when_due();
  wanted.range = launch.stopped != nullptr ? launch.stopped->range : ranges::here();
  if ((thread_choices != 0 || graph_choices.load() != 0) && process.take_choice(launch, &wanted.choice)) {
    wanted.chosen = true;
    wanted.kernel = &kernel;
    return true;
  }
  if (kernel.interest.load(std::memory_order_acquire) == Interest::unknown) meet(process, launch);
  Interest interest = kernel.interest.load(std::memory_order_acquire);
  if (process.conf().list_only) return is_listed(process, launch, interest, &wanted);
  if (interest != Interest::watched) return false;
  if (device()->is_capturing()) {
    process.selection.filter(kernel, "graph capture");
    return false;
  }
  if (process.conf().range && !process.wants_range(wanted.range)) {
    process.selection.filter(kernel, word::filter::range);
    return false;
  }
  if (!process.selection.wants(launch, wanted.range, process.occurrence_of(launch), &wanted.ordinal,
                               &wanted.position))
    return false;
  if (process.conf().graph) wanted.choice.annotation = process.annotation_of(launch);
  wanted.kernel = &kernel;
  return true;
}

// --list: two marks on the launch's stream, read when they were passed.
int timed(ProcessCapture& process, const Launch& launch, Call call, void* context) noexcept {
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
    process.take_times();
  } catch (const std::bad_alloc&) {
    // Some are not told.
  }
  return status;
}

}  // namespace

bool armed() noexcept {
  return process_capture() != nullptr;
}

bool lists_only() noexcept {
  ProcessCapture* process = kerncap::process_capture();
  return process != nullptr && process->conf().list_only;
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
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr || launch.kernel == nullptr || gate::Own::active()) return false;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    Overhead overhead(*process);
    return wants_this(*process, launch);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int run(const Launch& launch, Call call, void* context) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return call(context);
  if (process->conf().list_only) return timed(*process, launch, call, context);
  uint64_t started = now_ns();
  RealLaunch real(call, context);
  {
    KeepErrno keep;
    QuietSignals quiet;
    LaunchCapture attempt(*process, *device(), launch, real, std::move(wanted_here()));
    try {
      attempt.take();
    } catch (const std::bad_alloc&) {
      // Its end says so.
    }
  }
  real.once();
  process->overhead_ns.fetch_add(now_ns() - started - real.call_ns(), std::memory_order_relaxed);
  if (real.stop_after) process->stop();
  return real.status();
}

GraphTurn graph_launched(int64_t* known) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return {};
  try {
    return process->selection.count_graph(known);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

GraphWish graph_wish(const GraphTurn& turn) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr || process->conf().list_only) return GraphWish::nothing;
  if (!process->conf().graph) return GraphWish::kernels;
  return process->is_asked_for(turn) ? GraphWish::range : GraphWish::nothing;
}

void graph_ended(const GraphTurn& turn) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr || !process->is_asked_for(turn)) return;
  KeepErrno keep;
  QuietSignals quiet;
  const bool is_done = process->selection.end_graph();
  if (is_done && process->conf().stop) process->stop();
}

bool asks_for_nodes() noexcept {
  if (graph_choices.load(std::memory_order_relaxed) == 0) return false;
  ProcessCapture* process = kerncap::process_capture();
  return process != nullptr && process->conf().graph.has_value();
}

void became_node(const Kernel& kernel, const void* node) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  try {
    if (process != nullptr) process->became_node(kernel, node);
  } catch (const std::bad_alloc&) {
    // Captured without what the hook knows of it.
  }
}

bool close_for_stops(const std::vector<Launch>& launches, Stopped* stopped, std::string* why) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  Device& own = *device();
  if (process == nullptr) return false;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    stopped->python_stack = python_stack_here();
    stopped->range = ranges::here();
    stopped->occurrence = process->occurrence_here();
    if (!gate::close(process->conf().drain_timeout_ns())) {
      *why = "another thread did not come back from a driver call before its graph's launch";
      return false;
    }
    bool ready = own.enter(launches.front(), why);
    if (ready) {
      std::string let_through;
      const Poll poll = drain_device(*process, own, why, &let_through);
      ready = poll == Poll::done && own.prepare(why);
      if (ready) own.has_kernels(launches.front().device);
      // The driver may load a variable's module when it is asked for it.
      const std::string arch = own.describe(launches.front().device).arch;
      for (const Launch& launch : launches)
        if (ImageFacts known = process->facts_of(*launch.kernel, arch); ready)
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
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    process->session.failed(kernel != nullptr ? kernel->demangled : std::string(), reason);
    Wanted wanted = std::move(wanted_here());
    wanted_here() = Wanted();
    if (kernel == nullptr || wanted.kernel != kernel) return;
    Launch launch;
    launch.kernel = wanted.kernel;
    if (wanted.chosen)
      process->set_result(wanted.choice.token, Fate::failed, reason);
    else
      process->selection.settle(launch, Outcome::failed, 0, reason);
  } catch (const std::bad_alloc&) {
    // Said nowhere, then.
  }
}

void refuse_all(const std::string& reason) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    if (process->open()) process->session.failed(std::string(), reason);
  } catch (const std::bad_alloc&) {
    // Said nowhere, then.
  }
}

bool read_due_clock() noexcept {
  constexpr uint64_t often_ns = second_ns / 10;
  constexpr uint32_t skipped = 15;
  const uint64_t now = coarse_ns();
  this_thread.until_clock = now - this_thread.clock_ns < often_ns ? skipped : 0;
  this_thread.clock_ns = now;
  return now >= counts_due_ns.load(std::memory_order_relaxed);
}

bool passes_over(Kernel& kernel) noexcept {
  const uint64_t below = pass_below.load(std::memory_order_relaxed);
  Kernel* same = kernel.same.load(std::memory_order_relaxed);
  std::atomic<uint64_t>& counter = same != nullptr ? same->ordinal : kernel.ordinal;
  uint64_t ordinal = counter.load(std::memory_order_relaxed);
  while (ordinal < below)
    if (counter.compare_exchange_weak(ordinal, ordinal + 1, std::memory_order_relaxed)) return true;
  return false;
}

void saw_error(int status) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr || !is_fault(status) || process->fault_seen.load()) return;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    process->saw_fault(device()->error_text(status));
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
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return;
  try {
    choices_here().clear();
    device()->reset_after_fork();
    process->reset_after_fork();
  } catch (const std::bad_alloc&) {
    // The child then opens no folder, and captures nothing.
  }
}

void own(const char* name) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  try {
    if (process != nullptr && name != nullptr) process->own(name);
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
  ProcessCapture* process = kerncap::process_capture();
  try {
    if (process != nullptr && name != nullptr)
      process->choose_in_graph({name, token, annotation != nullptr ? annotation : ""});
  } catch (const std::bad_alloc&) {
    // Not captured, then.
  }
}

void choose_types(uint64_t token, const char* types) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  try {
    if (process != nullptr && types != nullptr) process->set_types(token, types);
  } catch (const std::bad_alloc&) {
    // --when nonfinite then refuses by name.
  }
}

long count_launch(bool starts, bool ends, uint64_t occurrence) noexcept try {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return LaunchSpan::before;
  if (occurrence == 0) occurrence = process->occurrence_here();
  return process->selection.count_launch(starts, ends, occurrence);
} catch (const std::bad_alloc&) {
  return LaunchSpan::before;
}

bool is_range_counted() noexcept {
  ProcessCapture* process = kerncap::process_capture();
  return process != nullptr && process->selection.is_range_counted();
}

bool is_disarmed() noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return false;
  try {
    if (arm::has_changed()) process->see_generation(nullptr);
  } catch (const std::bad_alloc&) {
    // The next launch sees it.
  }
  return process->selection.is_disarmed();
}

void name_config(const char* text) noexcept {
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr || text == nullptr || !process->conf().list_only) return;
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
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return Fate::not_launched;
  try {
    Result result;
    if (process->take_result(token, &result)) {
      *reason = result.reason;
      return result.fate;
    }
    process->forget_graph_choice(token);
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
  ProcessCapture* process = kerncap::process_capture();
  if (process == nullptr) return false;
  KeepErrno keep;
  QuietSignals quiet;
  try {
    if (arm::has_changed()) process->see_generation(&kernel);
    if (!process->open()) return false;
    if (kernel.interest.load(std::memory_order_acquire) == Interest::unknown) process->meet(kernel);
    Interest interest = kernel.interest.load(std::memory_order_acquire);
    if (interest != Interest::owned) return interest == Interest::watched;
    return graph_choices.load(std::memory_order_relaxed) != 0 && process->has_graph_choice(kernel);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace kerncap::capture
