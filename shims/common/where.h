// Evaluates `--where`, as steps in postfix order (docs/session.md), against one launch.
#ifndef KERNCAP_COMMON_WHERE_H
#define KERNCAP_COMMON_WHERE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.h"

namespace kerncap {

// A value of the expression's little language; a sequence is a tuple or a list.
struct Term {
  enum class Kind : uint8_t { none, integer, real, string, sequence };
  Kind kind = Kind::none;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<Term> items;

  static Term of(int64_t value);
  static Term of(std::string value);
  static Term of(std::vector<Term> values);
};

// A term, or why a launch has none: kept apart from "false", as in `a or b` the other side may still hold.
struct Slot {
  Term term;
  std::string unanswerable;  // the reason; empty for a term
};

class Where {
 public:
  Where(std::nullopt_t = std::nullopt) {}
  explicit Where(const json::Value& steps);
  bool empty() const { return steps_.empty(); }

  // Whether a launch with these names is chosen. False with the reason to count it under: "where",
  // or "where: no name x".
  bool holds(const std::map<std::string, Term>& names, std::string* reason) const;

 private:
  struct Step {
    std::string what;
    Slot operand;
  };
  std::vector<Step> steps_;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_WHERE_H
