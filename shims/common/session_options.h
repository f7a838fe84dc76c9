// session.json: what the command line wants (contract/options.def, docs/session.md).
#ifndef KERNCAP_COMMON_SESSION_OPTIONS_H
#define KERNCAP_COMMON_SESSION_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/where.h"

namespace kerncap {

// The types that options.def names.
namespace option {
using flag = bool;
using count = uint64_t;
using seconds = double;
using text = std::string;
using maybe_text = std::optional<std::string>;
using maybe_count = std::optional<uint64_t>;
using launches = std::optional<std::pair<uint64_t, uint64_t>>;
using ranks = std::optional<std::vector<int64_t>>;
using steps = Where;
using backend = std::string;
using when = std::optional<std::string>;
using memory = std::string;
}  // namespace option

struct Conf {
  enum class Memory : uint8_t { args, reachable, all };

  std::string folder;  // the session's
  static constexpr std::nullopt_t none = std::nullopt;
#define KERNCAP_OPTION(group, name, type, preset) option::type name = preset;
#include "contract/options.def"
#undef KERNCAP_OPTION

  const std::string& asked_at() const { return questions.empty() ? socket : questions; }
  bool conditional() const { return on_fault || when.has_value(); }
  // One launch and no more: neither ordinals nor a set was asked for.
  bool single() const {
    return !launch && !by_default && !per_config && !last && !is_span() && !trace_native;
  }
  // Whether a range of launches was asked for.
  bool is_span() const { return launches || from_kernel || whole_range || graph; }
  const char* condition() const;  // as records name it; null for none
  bool wants_rank(int64_t rank) const;
  bool wants_shim(const char* name) const;
  Memory reach() const;
  uint64_t drain_timeout_ns() const;
  uint64_t fault_timeout_ns() const;
  uint64_t collective_timeout_ns() const;
};

// Reads `<folder>/session.json`, or `session-<g>.json` of a generation that was armed; false if there is
// none, it is not whole, or its version is another one.
bool read_conf(const std::string& folder, uint64_t generation, Conf* conf);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SESSION_OPTIONS_H
