// A range of launches: which of all launches that match are in it. Guarded by the selection's lock.
#ifndef KERNCAP_COMMON_LAUNCH_SPAN_H
#define KERNCAP_COMMON_LAUNCH_SPAN_H

#include <cstdint>

#include "common/session_options.h"

namespace kerncap {

class LaunchSpan {
 public:
  static constexpr int64_t before = -1, behind = -2;

  // Counts a launch: its position, or why it is in no range. `starts`, `ends`: its kernel has such a name;
  // `occurrence`: a number for the NVTX range, or the launch of a graph, that it is in; 0: none.
  int64_t count(const Conf& conf, bool starts, bool ends, uint64_t occurrence) {
    if (is_over_) return behind;
    const uint64_t position = next_++;
    if (conf.whole_range || conf.graph)
      return count_within(conf.whole_range.value_or(0), occurrence, position);
    if (!(conf.launches ? position >= conf.launches->first : has_begun(conf, starts))) return before;
    bool last = conf.launches ? position + 1 >= conf.launches->second : ends && to_++ >= conf.to_skip;
    is_over_ = last || ++taken_ >= most;
    return static_cast<int64_t>(position);
  }
  bool is_over() const { return is_over_; }
  void end() { is_over_ = true; }

 private:
  static constexpr uint64_t most = 1024;  // kerncap/format/schema.py has the same limit

  int64_t count_within(uint64_t wanted, uint64_t occurrence, uint64_t position) {
    if (occurrence == 0) return before;
    if (occurrence != occurrence_) ++occurrences_;
    occurrence_ = occurrence;
    if (occurrences_ <= wanted) return before;
    is_over_ = occurrences_ > wanted + 1;
    if (is_over_) return behind;
    is_over_ = ++taken_ >= most;
    return static_cast<int64_t>(position);
  }

  bool has_begun(const Conf& conf, bool starts) {
    return has_begun_ = has_begun_ || (starts && from_++ >= conf.from_skip);
  }

  uint64_t next_ = 0, taken_ = 0, from_ = 0, to_ = 0, occurrence_ = 0, occurrences_ = 0;
  bool has_begun_ = false, is_over_ = false;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_LAUNCH_SPAN_H
