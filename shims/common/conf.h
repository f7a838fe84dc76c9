// session.conf: what the command line wants, in one key=value a line (docs/session.md).
#ifndef KERNCAP_COMMON_CONF_H
#define KERNCAP_COMMON_CONF_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/where.h"

namespace kerncap {

struct Conf {
  enum class When : uint8_t { always, nonfinite, differs };
  enum class Memory : uint8_t { args, reachable, all };

  std::string folder;  // the session's
  std::string token, socket;
  bool cuda = true, hip = true;  // backends that may capture here
  bool has_range = false;
  uint64_t first = 0, end = 0;  // --launch, half open
  bool by_default = false;      // no selector was given
  bool per_config = false;      // one launch for each grid, block, cluster and shared size
  Where where;
  bool asks_range = false;  // --range: the command line has the expression
  bool has_ranks = false;
  std::vector<int64_t> ranks;  // --rank: of the processes that may capture
  bool dormant = false;        // nothing is selected before `kerncap arm`
  uint64_t generation = 0;     // how often the session was armed before this
  uint64_t limit_kernels = 10, limit_bytes = 4ULL << 30, max_size = 8ULL << 30;
  bool on_fault = false;
  uint64_t fault_timeout_ns = 60000000000ULL;
  When when = When::always;
  uint64_t last = 0;  // 0: not asked for
  bool stop = false, no_values = false, list_only = false;
  uint64_t drain_timeout_ns = 5000000000ULL;
  uint32_t chunk_bytes = 256 * 1024;
  Memory memory = Memory::reachable;

  bool conditional() const { return on_fault || when != When::always; }
  // One launch and no more: neither ordinals nor a set was asked for.
  bool single() const { return !has_range && !by_default && !per_config && last == 0; }
  const char* condition() const;  // as records name it; null for none
  bool wants_rank(int64_t rank) const;
};

// Reads `<folder>/session.conf`, or `session-<g>.conf` of a generation that was armed; false where there is
// none or its version is another one.
bool read_conf(const std::string& folder, uint64_t generation, Conf* conf);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_CONF_H
