#include "common/where.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

namespace kerncap {
namespace {

using Kind = Term::Kind;

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
  return op == "==" || op == "!=" || op == "<" || op == "<=" || op == ">" || op == ">=" ||
         op == word::step::within;
}

Slot apply(const std::string& op, const Term& a, const Term& b) {
  Slot out;
  int order = 0;
  bool found = false, known = true;
  if (op == "==" || op == "!=") {
    out.term = Term::of(static_cast<int64_t>(equal(a, b) == (op == "==")));
  } else if (op == word::step::within) {
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

// An operand as JSON has it; an integer may be beyond a double's precision.
Slot constant(const json::Value& value) {
  Slot out;
  if (value.kind == json::Value::Kind::string) {
    out.term = Term::of(value.text);
  } else if (value.kind == json::Value::Kind::boolean) {
    out.term = Term::of(static_cast<int64_t>(value.truth));  // True equals 1 in the hook, too
  } else if (value.kind == json::Value::Kind::number &&
             value.text.find_first_of(".eINn") == std::string::npos) {
    errno = 0;
    out.term = Term::of(static_cast<int64_t>(std::strtoll(value.text.c_str(), nullptr, 10)));
    if (errno != 0) out.unanswerable = "a number beyond 64 bits";
  } else if (value.kind == json::Value::Kind::number) {
    out.term.kind = Kind::real;
    out.term.real = value.number;
  }
  return out;
}

Slot item(const Slot& from, int64_t wanted) {
  if (!from.unanswerable.empty()) return from;
  Slot out;
  auto size = static_cast<int64_t>(from.term.items.size());
  int64_t index = wanted < 0 ? wanted + size : wanted;
  if (from.term.kind != Kind::sequence || index < 0 || index >= size)
    out.unanswerable = "no item " + std::to_string(wanted);
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

Where::Where(const json::Value& steps) {
  for (const json::Value& step : steps.items) {
    const json::Value nothing;
    const json::Value& operand = step.items.size() > 1 ? step.items[1] : nothing;
    steps_.push_back({step.items.empty() ? std::string() : step.items[0].text, constant(operand)});
  }
}

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
  for (const auto& [what, operand] : steps_) {
    Slot out;
    if (what == word::step::name) {
      auto found = names.find(operand.term.text);
      if (found != names.end())
        out.term = found->second;
      else
        out.unanswerable = "no name " + operand.term.text;
    } else if (what == word::step::constant) {
      out = operand;
    } else if (what == word::step::attribute) {
      out = pop();
      if (out.unanswerable.empty()) out.unanswerable = "no attribute " + operand.term.text;
    } else if (what == word::step::item) {
      out = item(pop(), operand.term.integer);
    } else if (what == word::step::list) {
      auto count = std::min(static_cast<size_t>(std::max<int64_t>(operand.term.integer, 0)), stack.size());
      std::vector<Term> items;
      for (size_t i = stack.size() - count; i < stack.size(); ++i) items.push_back(stack[i].term);
      stack.resize(stack.size() - count);
      out.term = Term::of(std::move(items));
    } else if (what == word::step::negated) {
      out = pop();
      if (out.unanswerable.empty()) out.term = Term::of(static_cast<int64_t>(!truth(out.term)));
    } else {
      Slot right = pop(), left = pop();
      if (what == word::step::both || what == word::step::either)
        out = combine(what == word::step::both, left, right);
      else if (!left.unanswerable.empty() || !right.unanswerable.empty())
        out = left.unanswerable.empty() ? right : left;
      else
        out = apply(what, left.term, right.term);
    }
    stack.push_back(std::move(out));
  }
  Slot result = pop();
  *reason = result.unanswerable.empty() ? word::filter::where
                                        : std::string(word::filter::where) + ": " + result.unanswerable;
  return result.unanswerable.empty() && truth(result.term);
}

}  // namespace kerncap
