#include "common/glibc_floor.h"

#include "common/engine.h"

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
constexpr size_t max_results = 4096;  // that nobody asked for

uint32_t number_of(const json::Value& value) {
  return value.number > 0 && value.number < UINT32_MAX ? static_cast<uint32_t>(value.number) : 0;
}

// --- this process's engine ---------------------------------------------------------------------

enum Deciding : int { undecided, deciding, plain, armed };
std::atomic<int> decision{undecided};
Engine* the_engine = nullptr;

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
    if (the_engine != nullptr) the_engine->at_exit();
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

Engine* make_engine() noexcept {
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
    auto* made = new Engine(std::move(conf));
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

Engine* engine() noexcept {
  int state = decision.load(std::memory_order_acquire);
  if (state == armed) return the_engine;
  if (state == plain) return nullptr;
  int expected = undecided;
  if (decision.compare_exchange_strong(expected, deciding)) {
    the_engine = make_engine();
    decision.store(the_engine != nullptr ? armed : plain, std::memory_order_release);
    return the_engine;
  }
  while ((state = decision.load(std::memory_order_acquire)) == deciding) {
    timespec pause = as_timespec(100000);
    nanosleep(&pause, nullptr);
  }
  return state == armed ? the_engine : nullptr;
}

// --- kernels -------------------------------------------------------------------------------------

void Engine::meet(Kernel& kernel) {
  if (is_owned(kernel)) {
    kernel.interest.store(Interest::owned, std::memory_order_release);
    return;
  }
  std::lock_guard<std::mutex> lock(asking_);
  if (!open() || selection.is_known(kernel)) return;
  if (const char* reason = selection.closed()) {
    selection.answered(kernel, {false, reason});
    return;
  }
  Answer answer = ask_about(kernel);
  selection.answered(kernel, answer);
  if (!selection.is_untold(kernel)) return;
  const Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  json::Writer json;
  json.begin_object().field(key::kernel, without_parameters(kernel.demangled));
  json.field(key::qualified_name, kernel.demangled)
      .field(key::mangled, kernel.name)
      .field(key::mode, word::mode::native);
  json.field(key::source_known, answer.reason != word::filter::no_source)
      .field(key::image_kind, kind_of(image))
      .end();
  session.write(KERNCAP_RECORD_SEEN, json);
}

Answer Engine::ask_about(const Kernel& kernel) {
  json::Writer question = session.question();
  question.field(key::ask, word::ask::match)
      .field(key::kernel, kernel.name)
      .field(key::demangled, kernel.demangled);
  question.key(key::image);
  write_image(question, kernel);
  question.field(key::generation, conf().generation).end();
  Answer answer;
  json::Value reply;
  if (!ask(conf().asked_at(), question.text(), &reply)) {
    answer.reason = word::filter::no_answer;
    return answer;
  }
  const json::Value* match = reply.find(key::match);
  const json::Value* reason = reply.find(key::reason);
  answer.match = match != nullptr && match->truth;
  if (reason != nullptr) answer.reason = reason->text;
  for (auto [name, flag] : {std::pair(key::starts, &answer.starts), std::pair(key::ends, &answer.ends)})
    if (const json::Value* found = reply.find(name)) *flag = found->truth;
  if (match == nullptr && answer.reason.empty()) answer.reason = word::filter::no_answer;
  return answer;
}

ImageFacts Engine::facts_of(const Kernel& kernel, const std::string& arch) {
  Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  if (image == nullptr || store_image(*image) == nullptr) return {};
  std::lock_guard<std::mutex> lock(asking_);
  std::map<std::string, ImageFacts>& known = facts_[image];
  for (const std::string& name : {std::string(), kernel.name}) {
    auto found = known.find(name);
    if (found != known.end()) return found->second;
  }
  ImageFacts facts;
  if (ask_facts(kernel, arch, &facts)) known[facts.has_parameters ? kernel.name : std::string()] = facts;
  return facts;
}

bool Engine::ask_facts(const Kernel& kernel, const std::string& arch, ImageFacts* facts) {
  json::Writer question = session.question();
  question.field(key::ask, word::ask::globals).field(key::image, kernel.module->image->stored.load());
  question.field(key::kernel, kernel.name).field(key::arch, arch).end();
  json::Value reply;
  if (!ask(conf().asked_at(), question.text(), &reply)) return false;
  if (const json::Value* found = reply.find(key::globals))
    for (const json::Value& name : found->items) facts->globals.push_back(name.text);
  if (const json::Value* found = reply.find(key::statics))
    for (const json::Value& entry : found->items) {
      if (entry.items.size() != 3) continue;
      facts->statics.push_back({entry.items[0].text, number_of(entry.items[1]), number_of(entry.items[2])});
    }
  const json::Value* parameters = reply.find(key::parameters);
  if (parameters == nullptr || parameters->kind != json::Value::Kind::array) return true;
  facts->has_parameters = true;
  for (const json::Value& pair : parameters->items) {
    if (pair.items.size() != 2) continue;
    facts->parameters.push_back({number_of(pair.items[0]), number_of(pair.items[1])});
  }
  return true;
}

bool Engine::may_wait(const Kernel& kernel, const std::string& arch) {
  Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  if (image == nullptr || store_image(*image) == nullptr) return false;
  std::lock_guard<std::mutex> lock(asking_);
  auto known = may_wait_.find(&kernel);
  if (known != may_wait_.end()) return known->second;
  json::Writer question = session.question();
  question.field(key::ask, word::ask::waits).field(key::image, image->stored.load());
  question.field(key::kernel, kernel.name).field(key::arch, arch).end();
  json::Value reply;
  if (!ask(conf().asked_at(), question.text(), &reply)) return false;
  const json::Value* waits = reply.find(key::waits);
  return may_wait_[&kernel] = waits != nullptr && waits->truth;
}

const char* Engine::store_image(Image& image) {
  const char* stored = image.stored.load(std::memory_order_acquire);
  if (stored != nullptr || image.data == nullptr || image.size == 0) return stored;
  std::lock_guard<std::mutex> lock(asking_);
  if (image.stored.load() != nullptr) return image.stored.load();
  uint64_t hash = hash64(image.data, image.size);
  std::string name = std::string("code/") + kind_of(&image) + "-" + address_text(hash | 1ULL << 63).substr(2);
  if (!session.store(name, image.data, image.size)) return nullptr;
  image.stored.store(::strdup(name.c_str()), std::memory_order_release);
  return image.stored.load();
}

std::string Engine::program_of(Image& image) {
  std::lock_guard<std::mutex> lock(asking_);
  auto known = programs_.find(&image);
  if (known != programs_.end()) return known->second;
  std::string text = device()->program_of(image), name;
  if (!text.empty()) {
    name = "program-" + std::to_string(programs_.size()) + ".json";
    if (!session.store(name, reinterpret_cast<const uint8_t*>(text.data()), text.size())) name.clear();
  }
  programs_[&image] = name;
  return name;
}

// --- counts, faults, the end -----------------------------------------------------------------------

void Engine::write_counts(bool is_last) {
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

void Engine::take_times() {
  RowNumber row = 0;
  Span span;
  while (device()->next_time(&row, &span)) selection.rows().add_time(row, span);
  if (timeline::is_due()) write_timeline();
}

void Engine::write_timeline() {
  json::Writer json;
  if (timeline::write(json)) session.write(KERNCAP_RECORD_TIMELINE, json);
}

void Engine::count_when_due() {
  uint64_t due = capture::counts_due_ns.load(), now = coarse_ns();
  if (now < due || !session.is_open()) return;
  if (capture::counts_due_ns.compare_exchange_strong(due, now + counts_every_ns)) write_counts();
}

void Engine::see_generation(const Kernel* launching) {
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

bool Engine::wants_range(ranges::Path range) {
  return wants_range(ranges::text_of(range));
}

uint64_t Engine::occurrence_here() {
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

uint64_t Engine::occurrence_of(const Launch& launch) {
  if (conf().graph) return is_asked_for(launch.turn) ? 1 : 0;
  return launch.stopped != nullptr ? launch.stopped->occurrence : occurrence_here();
}

bool Engine::wants_range(const std::string& text) {
  std::lock_guard<std::mutex> lock(asking_);
  auto known = range_answers_.find(text);
  if (known != range_answers_.end()) return known->second;
  json::Writer question = session.question();
  question.field(key::ask, word::ask::range)
      .field(key::range, text)
      .field(key::generation, conf().generation)
      .end();
  json::Value reply;
  const json::Value* match =
      ask(conf().asked_at(), question.text(), &reply) ? reply.find(key::match) : nullptr;
  return range_answers_[text] = match != nullptr && match->truth;
}

void Engine::saw_fault(const std::string& error) {
  if (fault_seen.exchange(true) || !session.open()) return;
  session.write(KERNCAP_RECORD_LAST, last_launches::describe(error));
}

void Engine::remember(Kept kept) {
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

bool Engine::open() {
  if (session.is_open()) return true;
  if (!session.open()) return false;
  // Registered after what the driver registers when it starts, so called before it.
  if (!registered_.exchange(true)) std::atexit(kerncap::at_exit);
  return true;
}

void Engine::at_exit() {
  if (!session.is_open()) return;
  int status = fault_seen.load() ? 0 : device()->sticky_error();
  if (is_fault(status)) saw_fault(device()->error_text(status));
  write_counts(true);
  json::Writer json;
  json.begin_object().field(key::time_ns, wall_ns()).end();
  session.write(KERNCAP_RECORD_END, json);
}

void Engine::stop() {
  at_exit();
  ::kill(::getpid(), SIGTERM);
}

// --- the Triton hook's -----------------------------------------------------------------------------

bool Engine::is_owned(const Kernel& kernel) {
  std::lock_guard<std::mutex> lock(hook_);
  return owned_.count(kernel.name) != 0;
}

void Engine::own(const char* name) {
  if (conf().graph) return;
  {
    std::lock_guard<std::mutex> lock(hook_);
    if (!owned_.insert(name).second) return;
  }
  selection.disown(name);
}

bool Engine::take_choice(const Launch& launch, Choice* choice) {
  if (conf().graph) return false;  // see became_node
  const std::string& name = launch.kernel->name;
  std::vector<Choice>& here = choices_here();
  for (size_t i = 0; i < here.size(); ++i) {
    if (here[i].kernel != name) continue;
    *choice = std::move(here[i]);
    here.erase(here.begin() + static_cast<ptrdiff_t>(i));
    --capture::thread_choices;
    return true;
  }
  if (capture::graph_choices.load() == 0 || launch.route.compare(0, 13, "cuGraphLaunch") != 0) return false;
  std::lock_guard<std::mutex> lock(hook_);
  for (size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].kernel != name) continue;
    *choice = std::move(graph_[i]);
    graph_.erase(graph_.begin() + static_cast<ptrdiff_t>(i));
    capture::graph_choices.fetch_sub(1);
    return true;
  }
  return false;
}

void Engine::set_result(uint64_t token, capture::Fate fate, const std::string& reason) {
  std::lock_guard<std::mutex> lock(hook_);
  types_.erase(token);
  if (results_.size() >= max_results) results_.erase(results_.begin());
  results_[token] = {fate, reason};
}

bool Engine::take_result(uint64_t token, Result* result) {
  std::lock_guard<std::mutex> lock(hook_);
  auto found = results_.find(token);
  if (found == results_.end()) return false;
  *result = found->second;
  results_.erase(found);
  return true;
}

void Engine::choose_in_graph(Choice choice) {
  std::lock_guard<std::mutex> lock(hook_);
  graph_.push_back(std::move(choice));
  capture::graph_choices.fetch_add(1);
}

void Engine::forget_graph_choice(uint64_t token) {
  std::lock_guard<std::mutex> lock(hook_);
  for (size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].token != token) continue;
    graph_.erase(graph_.begin() + static_cast<ptrdiff_t>(i));
    capture::graph_choices.fetch_sub(1);
    return;
  }
}

bool Engine::has_graph_choice(const Kernel& kernel) {
  std::lock_guard<std::mutex> lock(hook_);
  for (const Choice& choice : graph_)
    if (choice.kernel == kernel.name) return true;
  return false;
}

void Engine::became_node(const Kernel& kernel, const void* node) {
  std::lock_guard<std::mutex> lock(hook_);
  for (size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].kernel != kernel.name) continue;
    nodes_[node] = std::move(graph_[i]);
    graph_.erase(graph_.begin() + static_cast<ptrdiff_t>(i));
    capture::graph_choices.fetch_sub(1);
    return;
  }
}

std::string Engine::annotation_of(const Launch& launch) {
  std::lock_guard<std::mutex> lock(hook_);
  auto found = nodes_.find(launch.node);
  // A handle may be another graph's by now.
  return found != nodes_.end() && found->second.kernel == launch.kernel->name ? found->second.annotation
                                                                              : std::string();
}

void Engine::set_types(uint64_t token, const std::string& types) {
  std::lock_guard<std::mutex> lock(hook_);
  types_[token] = types;
}

std::string Engine::types_of(uint64_t token) {
  std::lock_guard<std::mutex> lock(hook_);
  auto found = types_.find(token);
  return found == types_.end() ? std::string() : found->second;
}

void Engine::reset_after_fork() {
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

std::vector<Choice>& choices_here() noexcept {
  static thread_local std::vector<Choice> choices;
  return choices;
}

std::string& config_here() noexcept {
  static thread_local std::string config;
  return config;
}

}  // namespace kerncap
