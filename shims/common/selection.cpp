#include "common/selection.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/rank.h"
#include "common/text.h"
#include "common/where_names.h"

namespace kerncap {
namespace {

constexpr unsigned max_failures = 16;  // of one kernel, before it is left alone
constexpr size_t max_graphs = 1024;    // in COUNTS

std::string dim_text(const Dim3& dim) {
  return std::to_string(dim.x) + "," + std::to_string(dim.y) + "," + std::to_string(dim.z);
}

std::string configuration(const Launch& launch) {
  return dim_text(launch.grid) + ";" + dim_text(launch.block) + ";" + dim_text(launch.cluster) + ";" +
         std::to_string(launch.shared_bytes);
}

}  // namespace

Counters& Selection::of(Kernel& kernel) {
  Counters*& known = by_kernel_[&kernel];
  if (known != nullptr) return *known;
  std::unique_ptr<Counters>& named = by_name_[kernel.name];
  if (named == nullptr) named = std::make_unique<Counters>();
  if (!named->kernels.empty()) kernel.same.store(named->kernels.front(), std::memory_order_relaxed);
  named->kernels.push_back(&kernel);
  if (named->answered)
    kernel.interest.store(named->done ? Interest::ignored : Interest::watched, std::memory_order_release);
  return *(known = named.get());
}

uint64_t Selection::launches_of(const Counters& counters) {
  uint64_t launches = 0;
  for (const Kernel* kernel : counters.kernels) launches += kernel->launches.load();
  return launches;
}

void Selection::set_interest(Counters& counters, Interest interest) {
  for (Kernel* kernel : counters.kernels) kernel->interest.store(interest, std::memory_order_release);
}

bool Selection::is_known(Kernel& kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  return of(kernel).answered;
}

void Selection::answered(Kernel& kernel, const Answer& answer) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters& counters = of(kernel);
  counters.answered = true;
  counters.matches = answer.match;
  counters.starts = answer.starts;
  counters.ends = answer.ends;
  counters.source_known = answer.reason != word::filter::no_source;
  counters.reason = answer.match            ? word::filter::ordinal
                    : answer.reason.empty() ? word::filter::name
                                            : answer.reason;
  bool timed = conf_->list_only && answer.reason != word::filter::name && closed_locked() == nullptr;
  set_interest(counters, Interest::watched);
  if ((!answer.match && !timed) || disarmed_) finish(counters, std::string(counters.reason));
}

bool Selection::is_untold(Kernel& kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  return !std::exchange(of(kernel).told, true);
}

const char* Selection::closed_locked() const {
  if (conf_->dormant) return word::filter::dormant;
  return conf_->wants_rank(rank_here().global) ? nullptr : word::filter::rank;
}

const char* Selection::closed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_locked();
}

bool Selection::wants(const Launch& launch, ranges::Path range, uint64_t occurrence, uint64_t* ordinal,
                      int64_t* position) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, Term> names;
  if (!conf_->where.empty()) names = where_names(launch, range);
  Counters& counters = of(*launch.kernel);
  ++counters.accounted;
  std::string reason = counters.reason;
  bool refused = counters.done;
  if (!refused && !conf_->where.empty()) refused = !conf_->where.holds(names, &reason);
  if (!refused) {
    ++counters.matched;
    refused = refuses(counters, launch, occurrence, &reason, ordinal, position);
  }
  if (refused) {
    ++counters.filtered[reason];
    return false;
  }
  ++reserved_;
  ++counters.reserved;
  return true;
}

bool Selection::refuses(Counters& counters, const Launch& launch, uint64_t occurrence, std::string* reason,
                        uint64_t* ordinal, int64_t* position) {
  *ordinal = counters.kernels.front()->ordinal.fetch_add(1, std::memory_order_relaxed);
  *reason = word::filter::ordinal;
  if (disarmed_) {
    finish(counters, word::filter::ordinal);
    return true;
  }
  if (conf_->is_span()) {
    *position = span_.count(*conf_, counters.starts, counters.ends, occurrence);
    if (*position == LaunchSpan::behind) finish(counters, word::filter::ordinal);
    return *position < 0;
  }
  if (conf_->launch && (*ordinal < conf_->launch->first || *ordinal >= conf_->launch->second)) {
    if (*ordinal >= conf_->launch->second) finish(counters, word::filter::ordinal);
    return true;
  }
  if (conf_->by_default) {
    const char* refusal = refuses_by_default(counters);
    if (refusal != nullptr) {
      *reason = refusal;
      return true;
    }
  }
  if (conf_->single() && reserved_ > 0 && !conf_->conditional()) return true;
  if (counters.failures >= max_failures) {
    finish(counters, word::filter::failed);
    *reason = word::filter::failed;
    return true;
  }
  if (conf_->per_config && !counters.configs.insert(configuration(launch)).second) {
    *reason = word::filter::config;
    return true;
  }
  return false;
}

int64_t Selection::count_launch(bool starts, bool ends, uint64_t occurrence) {
  std::lock_guard<std::mutex> lock(mutex_);
  return span_.count(*conf_, starts, ends, occurrence);
}

bool Selection::is_range_counted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return conf_->is_span() && span_.is_over();
}

GraphTurn Selection::count_graph(int64_t* known) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (*known < 0) {
    graphs_.push_back(0);
    *known = static_cast<int64_t>(graphs_.size()) - 1;
  }
  return {*known, graphs_[static_cast<size_t>(*known)]++};
}

bool Selection::end_graph() {
  std::lock_guard<std::mutex> lock(mutex_);
  span_.end();
  return range_done();
}

const char* Selection::refuses_by_default(Counters& counters) {
  if (counters.captured > 0 || (counters.reserved > 0 && !conf_->conditional())) return word::filter::ordinal;
  if (kept_kernels_ < conf_->limit_kernels) return nullptr;
  finish(counters, word::filter::limit);
  return word::filter::limit;
}

RowNumber Selection::listed(const Launch& launch, ranges::Path range, const std::string& config) {
  const void* owner = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Counters& counters = of(*launch.kernel);
    ++counters.accounted;
    ++counters.matched;
    owner = &counters;
  }
  return rows_.count(owner, launch, range, config);
}

bool Selection::needs_stack(Kernel& kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  return !std::exchange(of(kernel).has_stack, true);
}

void Selection::set_stack(Kernel& kernel, PythonStack stack) {
  std::lock_guard<std::mutex> lock(mutex_);
  of(kernel).stack = std::move(stack);
}

void Selection::filter(Kernel& kernel, const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters& counters = of(kernel);
  ++counters.accounted;
  ++counters.filtered[reason];
}

bool Selection::settle(const Launch& launch, Outcome outcome, uint64_t size, const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters& counters = of(*launch.kernel);
  --reserved_;
  --counters.reserved;
  if (outcome == Outcome::refused) {
    ++counters.filtered[reason];
    finish(counters, reason);
  }
  if (outcome != Outcome::kept) {
    if (outcome == Outcome::failed) ++counters.failures;
    if (conf_->per_config) counters.configs.erase(configuration(launch));
    return false;
  }
  ++counters.captured;
  counters.bytes += size;
  kept_bytes_ += size;
  if (conf_->by_default) {
    finish(counters, word::filter::ordinal);
    if (counters.captured == 1) ++kept_kernels_;
    return kept_kernels_ >= conf_->limit_kernels;
  }
  if (conf_->single()) {
    disarm();
    return true;
  }
  return range_done();
}

void Selection::chosen_was_kept() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (conf_->single()) disarm();
}

bool Selection::is_disarmed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return disarmed_;
}

void Selection::disown(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = by_name_.find(name);
  if (found == by_name_.end() || found->second->reserved > 0) return;
  set_interest(*found->second, Interest::owned);
  for (const Kernel* kernel : found->second->kernels) by_kernel_.erase(kernel);
  by_name_.erase(found);
}

void Selection::uncount_captured(Kernel& kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counters& counters = of(kernel);
  if (counters.captured > 0) --counters.captured;
}

bool Selection::exceeds_limit(uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  return conf_->by_default && kept_bytes_ + size > conf_->limit_bytes;
}

// What passed on the fast path so far fell under the reason that held until now.
void Selection::account_passed(Counters& counters, const Kernel* launching) {
  uint64_t launches = launches_of(counters);
  auto known = by_kernel_.find(launching);
  if (known != by_kernel_.end() && known->second == &counters) --launches;
  if (launches <= counters.accounted) return;
  counters.filtered[counters.reason] += launches - counters.accounted;
  if (counters.matches && !counters.done) counters.matched += launches - counters.accounted;
  counters.accounted = launches;
}

void Selection::finish(Counters& counters, const std::string& reason) {
  if (counters.done) return;
  account_passed(counters);
  counters.done = true;
  counters.reason = reason;
  set_interest(counters, Interest::ignored);
}

void Selection::restart(const Conf& conf, const Kernel* launching) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [name, counters] : by_name_) {
    account_passed(*counters, launching);
    counters->answered = counters->matches = counters->done = false;
    counters->reason.clear();
    counters->captured_before += std::exchange(counters->captured, 0);
    counters->failures = 0;
    counters->configs.clear();
    for (Kernel* kernel : counters->kernels) kernel->ordinal.store(0, std::memory_order_relaxed);
    set_interest(*counters, Interest::unknown);
  }
  conf_ = &conf;
  span_ = LaunchSpan();
  disarmed_ = false;
  kept_kernels_ = kept_bytes_ = 0;
}

void Selection::disarm() {
  disarmed_ = true;
  for (auto& [name, counters] : by_name_)
    if (counters->reserved == 0 && counters->answered) finish(*counters, word::filter::ordinal);
}

// With --launch: every kernel that matched so far is past its last wanted ordinal. Of a range of launches:
// all of it is counted. Nothing of either is still being captured.
bool Selection::range_done() {
  if (conf_->is_span()) return span_.is_over() && reserved_ == 0;
  if (!conf_->launch || conf_->per_config || conf_->last || reserved_ > 0) return false;
  bool any = false;
  for (const auto& [name, counters] : by_name_) {
    uint64_t ordinal = counters->kernels.front()->ordinal.load(std::memory_order_relaxed);
    if (!counters->matches || ordinal == 0) continue;
    if (ordinal < conf_->launch->second) return false;
    any = true;
  }
  return any;
}

json::Writer Selection::counts(uint64_t overhead_ns, const char* clock, const std::string& clock_reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  json::Writer json;
  uint64_t total = 0;
  json.begin_object().key(key::kernels).begin_object();
  for (const auto& [name, one] : by_name_) {
    // The fast path counts first and the slow path later: never more accounted than launched.
    uint64_t launches = std::max(launches_of(*one), one->accounted), passed = launches - one->accounted;
    total += launches;
    std::map<std::string, uint64_t> filtered = one->filtered;
    if (passed > 0) filtered[one->reason] += passed;
    json.member(one->kernels.front()->demangled).begin_object().field(key::launches, launches);
    json.field(key::matched, one->matched + (one->matches && !one->done ? passed : 0));
    json.field(key::captured, one->captured_before + one->captured).key(key::filtered).begin_object();
    for (const auto& [reason, count] : filtered) json.member(reason).value(count);
    json.end().field(key::configs, 0).field(key::bytes, one->bytes);
    if (conf_->list_only) {
      rows_.write(one.get(), json);
      write_stack(json, key::stack, one->stack);
    } else {
      json.field(key::time_ns, 0);
    }
    json.end();
  }
  json.end().field(key::overhead_ns, overhead_ns).field(key::launches, total);
  json.key(key::graphs).begin_array();
  for (size_t i = 0; i < std::min(graphs_.size(), max_graphs); ++i) json.value(graphs_[i]);
  json.end();
  if (conf_->list_only) {
    json.field(key::clock, clock).text_or_null(key::clock_reason, clock_reason);
  }
  json.end();
  return json;
}

uint64_t Selection::pass_below() {
  std::lock_guard<std::mutex> lock(mutex_);
  bool countable = conf_->launch && conf_->where.empty() && !conf_->per_config && !conf_->list_only &&
                   !conf_->range && closed_locked() == nullptr;
  return countable ? conf_->launch->first : 0;
}

void Selection::reset_after_fork() {
  new (&mutex_) std::mutex;
  rows_.reset_after_fork();
  for (auto& [kernel, counters] : by_kernel_) {
    auto* known = const_cast<Kernel*>(kernel);
    known->launches.reset();
    known->ordinal.store(0);
    known->same.store(nullptr);
    known->interest.store(Interest::unknown);
  }
  by_name_.clear();
  by_kernel_.clear();
  span_ = LaunchSpan();
  graphs_.clear();
  disarmed_ = false;
  kept_kernels_ = kept_bytes_ = 0;
  reserved_ = 0;
}

}  // namespace kerncap
