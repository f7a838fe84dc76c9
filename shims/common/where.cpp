#include "common/where.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "common/text.h"

namespace kerncap {
namespace {

using Kind = Term::Kind;

// A launch has no answer. Kept apart from "false": in `a or b` the other side may still hold.
struct Slot {
  Term term;
  std::string unanswerable;  // the reason; empty for a term
};

bool is_number(const Term& term) {
  return term.kind == Kind::integer || term.kind == Kind::real;
}
double as_real(const Term& term) {
  return term.kind == Kind::real ? term.real : static_cast<double>(term.integer);
}

bool truth(const Term& term) {
  switch (term.kind) {
    case Kind::none:
      return false;
    case Kind::integer:
      return term.integer != 0;
    case Kind::real:
      return term.real != 0;
    case Kind::string:
      return !term.text.empty();
    default:
      return !term.items.empty();
  }
}

bool equal(const Term& a, const Term& b) {
  if (a.kind == Kind::integer && b.kind == Kind::integer) return a.integer == b.integer;
  if (is_number(a) && is_number(b)) return as_real(a) == as_real(b);
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::string) return a.text == b.text;
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!equal(a.items[i], b.items[i])) return false;
  return true;
}

// As Python orders: numbers by value, texts and sequences from the left. False: they have no order.
bool compare(const Term& a, const Term& b, int* order) {
  auto of = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (a.kind == Kind::integer && b.kind == Kind::integer) {
    *order = of(a.integer, b.integer);
    return true;
  }
  if (is_number(a) && is_number(b)) {
    *order = of(as_real(a), as_real(b));
    return true;
  }
  if (a.kind == Kind::string && b.kind == Kind::string) {
    *order = of(a.text.compare(b.text), 0);
    return true;
  }
  if (a.kind != Kind::sequence || b.kind != Kind::sequence) return false;
  for (size_t i = 0; i < a.items.size() && i < b.items.size(); ++i) {
    if (equal(a.items[i], b.items[i])) continue;
    return compare(a.items[i], b.items[i], order);
  }
  *order = of(a.items.size(), b.items.size());
  return true;
}

bool contains(const Term& in, const Term& what, bool* found) {
  *found = false;
  if (in.kind == Kind::string && what.kind == Kind::string) {
    *found = in.text.find(what.text) != std::string::npos;
    return true;
  }
  if (in.kind != Kind::sequence) return false;
  for (const Term& item : in.items) *found = *found || equal(item, what);
  return true;
}

int64_t floor_divide(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

bool integer_arithmetic(const std::string& op, int64_t a, int64_t b, Term* out) {
  int64_t result = 0;
  bool fits = true;
  if (op == "+") fits = !__builtin_add_overflow(a, b, &result);
  if (op == "-") fits = !__builtin_sub_overflow(a, b, &result);
  if (op == "*") fits = !__builtin_mul_overflow(a, b, &result);
  if (op == "//" || op == "%") {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    result = op == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
  }
  *out = Term::of(result);
  return fits;
}

bool arithmetic(const std::string& op, const Term& a, const Term& b, Term* out) {
  if (a.kind == Kind::integer && b.kind == Kind::integer)
    return integer_arithmetic(op, a.integer, b.integer, out);
  if (is_number(a) && is_number(b)) {
    double x = as_real(a), y = as_real(b);
    if ((op == "//" || op == "%") && y == 0) return false;
    double floored = op == "//" || op == "%" ? std::floor(x / y) : 0;
    out->kind = Kind::real;
    out->real = op == "+"    ? x + y
                : op == "-"  ? x - y
                : op == "*"  ? x * y
                : op == "//" ? floored
                             : x - floored * y;
    return true;
  }
  if (op != "+" || a.kind != b.kind) return false;
  *out = a;
  out->text += b.text;
  out->items.insert(out->items.end(), b.items.begin(), b.items.end());
  return a.kind == Kind::string || a.kind == Kind::sequence;
}

bool is_comparison(const std::string& op) {
  return op == "==" || op == "!=" || op == "<" || op == "<=" || op == ">" || op == ">=" || op == "in";
}

Slot apply(const std::string& op, const Term& a, const Term& b) {
  Slot out;
  int order = 0;
  bool found = false, known = true;
  if (op == "==" || op == "!=") {
    out.term = Term::of(static_cast<int64_t>(equal(a, b) == (op == "==")));
  } else if (op == "in") {
    known = contains(b, a, &found);
    out.term = Term::of(static_cast<int64_t>(found));
  } else if (is_comparison(op)) {
    known = compare(a, b, &order);
    bool holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    out.term = Term::of(static_cast<int64_t>(holds));
  } else {
    known = arithmetic(op, a, b, &out.term);
  }
  if (!known) out.unanswerable = op + " of values that don't go together";
  return out;
}

// `a and b`, `a or b` as Python has them: the second side counts only where the first leaves it open.
Slot combine(bool is_and, const Slot& a, const Slot& b) {
  if (!a.unanswerable.empty()) return a;
  return truth(a.term) == is_and ? b : a;
}

Slot constant(const std::string& token) {
  Slot out;
  std::string value = token.size() > 4 ? token.substr(4) : std::string();
  char type = token.size() > 2 ? token[2] : '?';
  if (type == 'i') {
    errno = 0;
    out.term = Term::of(static_cast<int64_t>(std::strtoll(value.c_str(), nullptr, 10)));
    if (errno != 0) out.unanswerable = "a number beyond 64 bits";
  } else if (type == 'f') {
    out.term.kind = Kind::real;
    out.term.real = std::strtod(value.c_str(), nullptr);
  } else if (type == 's') {
    out.term = Term::of(percent_decode(value));
  } else if (type != 'n') {
    out.unanswerable = "unknown constant " + token;
  }
  return out;
}

Slot item(const Slot& from, const std::string& index_text) {
  if (!from.unanswerable.empty()) return from;
  Slot out;
  auto size = static_cast<int64_t>(from.term.items.size());
  int64_t index = std::strtoll(index_text.c_str(), nullptr, 10);
  if (index < 0) index += size;
  if (from.term.kind != Kind::sequence || index < 0 || index >= size)
    out.unanswerable = "no item " + index_text;
  else
    out.term = from.term.items[static_cast<size_t>(index)];
  return out;
}

}  // namespace

Term Term::of(int64_t value) {
  Term term;
  term.kind = Kind::integer;
  term.integer = value;
  return term;
}

Term Term::of(std::string value) {
  Term term;
  term.kind = Kind::string;
  term.text = std::move(value);
  return term;
}

Term Term::of(std::vector<Term> values) {
  Term term;
  term.kind = Kind::sequence;
  term.items = std::move(values);
  return term;
}

Where::Where(std::string_view reverse_polish) : tokens_(split(reverse_polish, ' ')) {}

bool Where::holds(const std::map<std::string, Term>& names, std::string* reason) const {
  std::vector<Slot> stack;
  auto pop = [&] {
    Slot top;
    if (stack.empty()) {
      top.unanswerable = "malformed";
    } else {
      top = std::move(stack.back());
      stack.pop_back();
    }
    return top;
  };
  for (const std::string& token : tokens_) {
    Slot out;
    if (token.compare(0, 2, "n:") == 0) {
      std::string name = percent_decode(token.substr(2));
      auto found = names.find(name);
      if (found != names.end())
        out.term = found->second;
      else
        out.unanswerable = "no name " + name;
    } else if (token.compare(0, 2, "c:") == 0) {
      out = constant(token);
    } else if (token.compare(0, 5, "attr:") == 0) {
      out = pop();
      if (out.unanswerable.empty()) out.unanswerable = "no attribute " + percent_decode(token.substr(5));
    } else if (token.compare(0, 5, "item:") == 0) {
      out = item(pop(), token.substr(5));
    } else if (token.compare(0, 5, "list:") == 0) {
      uint64_t count = 0;
      if (!parse_u64(token.substr(5), &count) || count > stack.size()) count = stack.size();
      std::vector<Term> items;
      for (size_t i = stack.size() - count; i < stack.size(); ++i) items.push_back(stack[i].term);
      stack.resize(stack.size() - count);
      out.term = Term::of(std::move(items));
    } else if (token == "not") {
      out = pop();
      if (out.unanswerable.empty()) out.term = Term::of(static_cast<int64_t>(!truth(out.term)));
    } else {
      Slot right = pop(), left = pop();
      if (token == "and" || token == "or")
        out = combine(token == "and", left, right);
      else if (!left.unanswerable.empty() || !right.unanswerable.empty())
        out = left.unanswerable.empty() ? right : left;
      else
        out = apply(token, left.term, right.term);
    }
    stack.push_back(std::move(out));
  }
  Slot result = pop();
  *reason = result.unanswerable.empty() ? "where" : "where: " + result.unanswerable;
  return result.unanswerable.empty() && truth(result.term);
}

}  // namespace kerncap
