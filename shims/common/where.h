// Evaluates `--where`, in reverse Polish (docs/session.md), against one launch.
#ifndef KERNCAP_COMMON_WHERE_H
#define KERNCAP_COMMON_WHERE_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

class Where {
 public:
  Where() = default;
  explicit Where(std::string_view reverse_polish);
  bool empty() const { return tokens_.empty(); }

  // Whether a launch with these names is chosen. False with the reason to count it under: "where",
  // or "where: no name x".
  bool holds(const std::map<std::string, Term>& names, std::string* reason) const;

 private:
  std::vector<std::string> tokens_;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_WHERE_H
