#include "common/glibc_floor.h"

#include "common/process_capture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "common/arm.h"
#include "common/device.h"
#include "common/gate.h"
#include "common/quiet_signals.h"
#include "common/socket.h"
#include "common/text.h"
#include "common/timeline.h"
#include "common/writer_pool.h"

namespace kerncap {
namespace {

constexpr uint64_t counts_every_ns = 5 * second_ns;

enum Deciding : int { undecided, deciding, plain, armed };
std::atomic<int> decision{undecided};
ProcessCapture* the_process = nullptr;

// Of the session that this process was given; empty: none.
std::string session_folder() {
  const char* session = std::getenv("KERNCAP_SESSION");
  std::string folder = session != nullptr ? session : "";
  size_t slash = folder.rfind('/');
  if (folder.size() > 5 && folder.compare(folder.size() - 5, 5, ".json") == 0)
    folder = slash == std::string::npos ? "." : folder.substr(0, slash);
  return folder;
}

void at_exit() {
  QuietSignals quiet;
  try {
    device()->finish_stopped();
    if (the_process != nullptr) the_process->at_exit();
  } catch (const std::bad_alloc&) {
    // The counts are lost, no more.
  }
}

// What a session that was armed before this process started selects by now.
Conf newest(Conf conf) {
  if (!conf.dormant || !arm::watch(conf.folder)) return conf;
  uint64_t generation = arm::generation();
  arm::seen.store(generation, std::memory_order_relaxed);
  Conf armed;
  if (generation == 0 || !read_conf(conf.folder, generation, &armed)) return conf;
  return armed;
}

ProcessCapture* begin_process() noexcept {
  KeepErrno keep;
  QuietSignals quiet;
  try {
    std::string folder = session_folder();
    Conf conf;
    if (folder.empty() || !read_conf(folder, 0, &conf)) return nullptr;
    conf = newest(std::move(conf));
    if (!conf.wants_shim(shim_name())) return nullptr;
    // A launch is looked at as one that is captured, and every one is.
    conf.trace_native = conf.trace_native && std::strcmp(shim_name(), word::shim::cuda) == 0;
    if (conf.trace_native) conf.list_only = conf.by_default = false;
    capture::leave_mark(shim_name());
    if (conf.timeline) timeline::turn_on();
    auto* made = new ProcessCapture(std::move(conf));
    capture::pass_below.store(made->selection.pass_below());
    capture::counts_due_ns.store(coarse_ns() + counts_every_ns);
    pthread_atfork(nullptr, nullptr, capture::reset_after_fork);
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

void capture::leave_mark(const char* kind) noexcept try {
  std::string folder = session_folder();
  if (folder.empty()) return;
  std::string path = folder + "/" + kind + "-" + std::to_string(::getpid());
  OwnFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
} catch (const std::bad_alloc&) {
  // Then the session lacks it.
}

ProcessCapture* process_capture() noexcept {
  int state = decision.load(std::memory_order_acquire);
  if (state == armed) return the_process;
  if (state == plain) return nullptr;
  int expected = undecided;
  if (decision.compare_exchange_strong(expected, deciding)) {
    the_process = begin_process();
    decision.store(the_process != nullptr ? armed : plain, std::memory_order_release);
    return the_process;
  }
  while ((state = decision.load(std::memory_order_acquire)) == deciding) {
    timespec pause = as_timespec(100000);
    nanosleep(&pause, nullptr);
  }
  return state == armed ? the_process : nullptr;
}

void ProcessCapture::write_counts(bool is_last) {
  capture::counts_due_ns.store(coarse_ns() + counts_every_ns);
  std::string clock_reason;
  const char* clock = word::clock::host;
  if (conf().list_only) {
    take_times();
    device()->collect_times(is_last);
    clock = device()->clock(&clock_reason);
    if (is_last) ranges::close_all();
    write_timeline();
  }
  session.write(KERNCAP_RECORD_COUNTS, selection.counts(overhead_ns.load(), clock, clock_reason));
}

void ProcessCapture::take_times() {
  RowNumber row = 0;
  Span span;
  while (device()->next_time(&row, &span)) selection.rows().add_time(row, span);
  if (timeline::is_due()) write_timeline();
}

void ProcessCapture::write_timeline() {
  json::Writer json;
  if (timeline::write(json)) session.write(KERNCAP_RECORD_TIMELINE, json);
}

void ProcessCapture::count_when_due() {
  uint64_t due = capture::counts_due_ns.load(), now = coarse_ns();
  if (now < due || !session.is_open()) return;
  if (capture::counts_due_ns.compare_exchange_strong(due, now + counts_every_ns)) write_counts();
}

void ProcessCapture::see_generation(const Kernel* launching) {
  std::lock_guard<std::mutex> lock(arming_);
  uint64_t now = arm::generation();
  if (now == arm::seen.load(std::memory_order_relaxed)) return;
  auto fresh = std::make_unique<Conf>();
  bool is_whole = read_conf(conf().folder, now, fresh.get());
  if (is_whole) {
    std::lock_guard<std::mutex> asking(asking_);
    fresh->generation = now;
    session.set_generation(now);
    range_answers_.clear();
    conf_.store(fresh.get(), std::memory_order_release);
    later_.push_back(std::move(fresh));
    capture::pass_below.store(0);
    selection.restart(conf(), launching);
    capture::pass_below.store(selection.pass_below());
  }
  arm::seen.store(now, std::memory_order_release);
  if (!is_whole && open())
    session.failed(std::string(), "session-" + std::to_string(now) +
                                      ".json can't be read: this process goes on as it was armed before");
}

uint64_t ProcessCapture::occurrence_here() {
  if (!conf().whole_range) return 0;
  std::vector<std::string> names = ranges::names_of(ranges::here());
  std::vector<uint64_t> serials = ranges::serials_here();
  std::string text;
  for (size_t depth = 0; depth < names.size() && depth < serials.size(); ++depth) {
    text += (depth == 0 ? "" : "/") + names[depth];
    if (wants_range(text)) return serials[depth];
  }
  return 0;
}

uint64_t ProcessCapture::occurrence_of(const Launch& launch) {
  if (conf().graph) return is_asked_for(launch.turn) ? 1 : 0;
  return launch.stopped != nullptr ? launch.stopped->occurrence : occurrence_here();
}

void ProcessCapture::saw_fault(const std::string& error) {
  if (fault_seen.exchange(true) || !session.open()) return;
  session.write(KERNCAP_RECORD_LAST, last_launches::describe(error));
}

void ProcessCapture::remember(Kept kept) {
  if (!conf().last) return;
  std::lock_guard<std::mutex> lock(last_);
  kept_.push_back(std::move(kept));
  while (kept_.size() > *conf().last) {
    Kept& oldest = kept_.front();
    if (!oldest.chosen) selection.uncount_captured(*oldest.kernel);
    json::Writer json;
    json.begin_object().field(key::launch, oldest.launch);
    json.field(key::reason, "not among the last " + std::to_string(*conf().last)).end();
    session.write(KERNCAP_RECORD_DROPPED, json);
    if (oldest.post != nullptr) oldest.post->remove();
    if (oldest.pre != nullptr && oldest.pre->is_memfd())
      memfds.give_back(std::move(oldest.pre));
    else if (oldest.pre != nullptr)
      oldest.pre->remove();
    kept_.pop_front();
  }
}

bool ProcessCapture::open() {
  if (session.is_open()) return true;
  if (!session.open()) return false;
  // Registered after what the driver registers when it starts, so called before it.
  if (!registered_.exchange(true)) std::atexit(kerncap::at_exit);
  return true;
}

void ProcessCapture::at_exit() {
  if (!session.is_open()) return;
  int status = fault_seen.load() ? 0 : device()->sticky_error();
  if (is_fault(status)) saw_fault(device()->error_text(status));
  write_counts(true);
  json::Writer json;
  json.begin_object().field(key::time_ns, wall_ns()).end();
  session.write(KERNCAP_RECORD_END, json);
}

void ProcessCapture::stop() {
  at_exit();
  ::kill(::getpid(), SIGTERM);
}

void ProcessCapture::reset_after_fork() {
  new (&arming_) std::mutex;
  new (&asking_) std::mutex;
  new (&hook_) std::mutex;
  new (&last_) std::mutex;
  session.reset_after_fork();
  selection.reset_after_fork();
  timeline::reset_after_fork();
  memfds.reset_after_fork();
  for (auto& entry : facts_) const_cast<Image*>(entry.first)->stored.store(nullptr);
  facts_.clear();
  programs_.clear();
  graph_.clear();
  nodes_.clear();
  results_.clear();
  types_.clear();
  kept_.clear();  // closes our copies; the files are the parent's
  overhead_ns.store(0);
  fault_seen.store(false);
}

Wanted& wanted_here() noexcept {
  static thread_local Wanted wanted;
  return wanted;
}

}  // namespace kerncap
