// Which launches are wanted: name, --where, ordinal, limits; when to disarm; and the counts of it all.
#ifndef KERNCAP_COMMON_SELECTION_H
#define KERNCAP_COMMON_SELECTION_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/json.h"
#include "common/launch.h"
#include "common/launch_span.h"
#include "common/listing_rows.h"
#include "common/nvtx_ranges.h"
#include "common/python_stack.h"
#include "common/session_options.h"

namespace kerncap {

// What the command line answered about a kernel.
struct Answer {
  bool match = false;
  std::string reason{};               // "name", "no source"; "no answer" if none came
  bool starts = false, ends = false;  // a range of launches
};

// The state of all kernels of one name in this process. Guarded by the selection's lock.
struct Counters {
  std::vector<Kernel*> kernels;         // of one name in several modules; the first one's ordinals count
  bool answered = false, told = false;  // `told`: there is a SEEN record of it
  bool matches = false, source_known = true, starts = false, ends = false;
  bool done = false;       // nothing more is wanted of it
  std::string reason;      // what launches fall under that only the fast path saw
  uint64_t accounted = 0;  // launches that the slow path saw
  uint64_t matched = 0, captured = 0, bytes = 0;
  uint64_t captured_before = 0;  // under earlier generations
  unsigned failures = 0, reserved = 0;
  bool has_stack = false;
  PythonStack stack;  // with list_only: of the first launch
  std::map<std::string, uint64_t> filtered;
  std::set<std::string> configs;  // taken or being taken, with per_config
};

enum class Outcome : uint8_t { kept, dropped, failed, refused };

// `wants` reserves a launch; `settle` says what became of it, so that a failed or dropped capture
// gives its place to the next match.
class Selection {
 public:
  explicit Selection(const Conf& conf) : conf_(&conf) {}

  // False: a kernel of this name is yet to be asked about; then `answered`, once.
  bool is_known(Kernel& kernel);
  void answered(Kernel& kernel, const Answer& answer);

  // Once for each kernel: it is yet to be told of.
  bool is_untold(Kernel& kernel);
  // Why nothing of this process is wanted now, and nobody is asked: "dormant", "rank"; null otherwise.
  const char* closed();

  // A reservation for this launch, with its ordinal and its position in a range of launches, if one was
  // asked for; or false, and the launch is counted.
  // `occurrence`: see LaunchSpan.
  bool wants(const Launch& launch, ranges::Path range, uint64_t occurrence, uint64_t* ordinal,
             int64_t* position);
  // A launch of the hook's: its position, see LaunchSpan.
  int64_t count_launch(bool starts, bool ends, uint64_t occurrence);
  bool is_range_counted();
  GraphTurn count_graph(int64_t* known);
  // The launch of a graph that is the range. True when nothing more is wanted of this process.
  bool end_graph();
  // With list_only: counted under its row, which is given.
  RowNumber listed(const Launch& launch, ranges::Path range, const std::string& config);
  bool needs_stack(Kernel& kernel);
  void set_stack(Kernel& kernel, PythonStack stack);
  void filter(Kernel& kernel, const std::string& reason);
  // True when nothing more is wanted of this process.
  bool settle(const Launch& launch, Outcome outcome, uint64_t size, const std::string& reason);
  void chosen_was_kept();  // the hook's launch counts as the one that was asked for
  bool is_disarmed();
  void disown(const std::string& name);   // kernels of this name are the hook's from now on
  void uncount_captured(Kernel& kernel);  // --last dropped it
  bool exceeds_limit(uint64_t size);      // of the default selection
  Rows& rows() { return rows_; }
  // Another generation: everything is asked and chosen anew, what was counted stays.
  // `launching`: of the launch that saw it, which counts under the new one; null for none.
  void restart(const Conf& conf, const Kernel* launching);

  // COUNTS, cumulative.
  json::Writer counts(uint64_t overhead_ns, const char* clock, const std::string& clock_reason);
  // The ordinal below which a matching launch needs no look: no --where, no configurations.
  uint64_t pass_below();
  void reset_after_fork();

 private:
  Counters& of(Kernel& kernel);
  static uint64_t launches_of(const Counters& counters);
  static void set_interest(Counters& counters, Interest interest);
  const char* refuses_by_default(Counters& counters);
  bool refuses(Counters& counters, const Launch& launch, uint64_t occurrence, std::string* reason,
               uint64_t* ordinal, int64_t* position);
  void finish(Counters& counters, const std::string& reason);
  void disarm();
  bool range_done();
  void account_passed(Counters& counters, const Kernel* launching = nullptr);
  const char* closed_locked() const;

  const Conf* conf_;
  Rows rows_;
  std::mutex mutex_;
  std::unordered_map<const Kernel*, Counters*> by_kernel_;
  std::map<std::string, std::unique_ptr<Counters>> by_name_;
  LaunchSpan span_;
  std::vector<uint64_t> graphs_;  // launches of each
  bool disarmed_ = false;
  uint64_t kept_kernels_ = 0, kept_bytes_ = 0;
  unsigned reserved_ = 0;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SELECTION_H
