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

#include "common/conf.h"
#include "common/json.h"
#include "common/launch.h"

namespace kerncap {

// What the command line answered about a kernel.
struct Answer {
  bool match = false;
  std::string reason;  // "name", "no source"; "no answer" where none came
};

// The state of all kernels of one name in this process. Guarded by the selection's lock.
struct Counters {
  std::vector<Kernel*> kernels;  // of one name in several modules; the first one's ordinals count
  bool answered = false;
  bool matches = false, source_known = true;
  bool done = false;       // nothing more is wanted of it
  std::string reason;      // what launches fall under that only the fast path saw
  uint64_t accounted = 0;  // launches that the slow path saw
  uint64_t matched = 0, captured = 0, bytes = 0;
  unsigned failures = 0, reserved = 0;
  uint64_t time_ns = 0, timed = 0;
  std::map<std::string, uint64_t> filtered;
  std::set<std::string> configs;  // taken or being taken, with per_config
};

enum class Outcome : uint8_t { kept, dropped, failed, refused };

// `wants` reserves a launch; `settle` says what became of it, so that a failed or dropped capture
// gives its place to the next match.
class Selection {
 public:
  explicit Selection(const Conf& conf) : conf_(conf) {}

  // False: a kernel of this name is yet to be asked about; then `answered`, once.
  bool is_known(Kernel& kernel);
  void answered(Kernel& kernel, const Answer& answer);

  // A reservation for this launch, with its ordinal; or false, and the launch is counted.
  bool wants(const Launch& launch, uint64_t* ordinal);
  void listed(Kernel& kernel);  // with list_only: counted and timed
  void filter(Kernel& kernel, const std::string& reason);
  // True when nothing more is wanted of this process.
  bool settle(const Launch& launch, Outcome outcome, uint64_t size, const std::string& reason);
  void chosen_was_kept();  // the hook's launch counts as the one that was asked for
  bool is_disarmed();
  void disown(const std::string& name);   // kernels of this name are the hook's from now on
  void uncount_captured(Kernel& kernel);  // --last dropped it
  bool exceeds_limit(uint64_t size);      // of the default selection
  void add_time(Kernel& kernel, uint64_t time_ns);

  // COUNTS, cumulative.
  json::Writer counts(uint64_t overhead_ns);
  // The ordinal below which a matching launch needs no look: no --where, no configurations.
  uint64_t pass_below() const;
  void reset_after_fork();

 private:
  Counters& of(Kernel& kernel);
  static uint64_t launches_of(const Counters& counters);
  static void set_interest(Counters& counters, Interest interest);
  const char* refuses_by_default(Counters& counters);
  bool refuses(Counters& counters, const Launch& launch, std::string* reason, uint64_t* ordinal);
  void finish(Counters& counters, const std::string& reason);
  void disarm();
  bool range_done();

  const Conf& conf_;
  std::mutex mutex_;
  std::unordered_map<const Kernel*, Counters*> by_kernel_;
  std::map<std::string, std::unique_ptr<Counters>> by_name_;
  bool disarmed_ = false;
  uint64_t kept_kernels_ = 0, kept_bytes_ = 0;
  unsigned reserved_ = 0;
};

// Names that --where may use of a native launch.
std::map<std::string, Term> where_names(const Launch& launch);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SELECTION_H
