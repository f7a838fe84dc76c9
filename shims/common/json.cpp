#include "common/json.h"

#include <cstdlib>

namespace kerncap::json {
namespace {

// Length of the UTF-8 sequence that begins at `at`; 0 if the bytes are not one.
size_t sequence_length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(at);
  size_t length = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2 : (first & 0xF0) == 0xE0 ? 3 : 0;
  if (first >= 0xF0 && first < 0xF5) length = 4;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  uint8_t second = length > 1 ? byte(at + 1) : 0;
  bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool surrogate = first == 0xED && second >= 0xA0;
  bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

void append_escape(std::string& out, unsigned code) {
  static const char digits[] = "0123456789abcdef";
  out += "\\u00";
  out += digits[code >> 4 & 15];
  out += digits[code & 15];
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool whole(Value* value) {
    if (!parse(value, 0)) return false;
    skip();
    return at_ == text_.size();
  }

 private:
  static constexpr int max_depth = 32;

  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool take(char wanted) {
    skip();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  bool parse(Value* value, int depth) {
    skip();
    if (at_ >= text_.size() || depth > max_depth || values_left_-- == 0) return false;
    char first = text_[at_];
    if (first == '{') return object(value, depth);
    if (first == '[') return array(value, depth);
    if (first == '"') {
      value->kind = Value::Kind::string;
      return string(&value->text);
    }
    if (word("true") || word("false")) {
      value->kind = Value::Kind::boolean;
      value->truth = first == 't';
      return true;
    }
    if (word("null")) return true;
    for (const char* odd : {"NaN", "Infinity", "-Infinity"})
      if (word(odd)) return numeric(value, odd);
    return number(value);
  }

  bool object(Value* value, int depth) {
    value->kind = Value::Kind::object;
    ++at_;
    if (take('}')) return true;
    do {
      skip();
      std::string name;
      if (at_ >= text_.size() || text_[at_] != '"' || !string(&name) || !take(':')) return false;
      Value& member = value->members[name];
      member = Value();  // the last one of a name counts
      if (!parse(&member, depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool array(Value* value, int depth) {
    value->kind = Value::Kind::array;
    ++at_;
    if (take(']')) return true;
    do {
      value->items.emplace_back();
      if (!parse(&value->items.back(), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool number(Value* value) {
    size_t end = at_;
    while (end < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[end]) != std::string_view::npos)
      ++end;
    if (end == at_) return false;
    std::string text(text_.substr(at_, end - at_));
    at_ = end;
    return numeric(value, text.c_str());
  }
  bool numeric(Value* value, const char* text) {
    value->kind = Value::Kind::number;
    value->text = text;
    char* end = nullptr;
    value->number = std::strtod(text, &end);
    return *end == '\0';
  }

  bool string(std::string* out) {
    ++at_;
    while (at_ < text_.size()) {
      char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        out->push_back(c);
        continue;
      }
      if (at_ >= text_.size() || !escape(out)) return false;
    }
    return false;
  }

  bool escape(std::string* out) {
    static const std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    char c = text_[at_++];
    if (c == 'u') return code_point(out);
    size_t found = from.find(c);
    if (found == std::string_view::npos) return false;
    out->push_back(to[found]);
    return true;
  }

  bool hex4(unsigned* code) {
    if (at_ + 4 > text_.size()) return false;
    *code = 0;
    for (int i = 0; i < 4; ++i) {
      size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(text_[at_++] | 0x20));
      if (digit == std::string_view::npos) return false;
      *code = *code * 16 + static_cast<unsigned>(digit);
    }
    return true;
  }

  bool code_point(std::string* out) {
    unsigned code = 0, low = 0;
    if (!hex4(&code)) return false;
    if (code >= 0xDC80 && code <= 0xDCFF) {
      out->push_back(static_cast<char>(code & 0xFF));
      return true;
    }
    if (code >= 0xD800 && code < 0xDC00) {
      if (!word("\\u") || !hex4(&low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    auto put = [&](unsigned byte) { out->push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6), put(0x80 | (code & 63));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
    } else {
      put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63));
      put(0x80 | (code & 63));
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  unsigned values_left_ = 1U << 17;
};

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    size_t length = sequence_length(text, at);
    auto byte = static_cast<uint8_t>(text[at]);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    if (byte == '"' || byte == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(byte));
    } else if (byte < 0x20) {
      append_escape(out, byte);
    } else {
      out.append(text.substr(at, length));
    }
    at += length;
  }
  out.push_back('"');
}

Writer& Writer::begin(char open, char close) {
  separate();
  out_.push_back(open);
  closers_.push_back(close);
  comma_ = false;
  return *this;
}

Writer& Writer::end() {
  out_.push_back(closers_.back());
  closers_.pop_back();
  comma_ = true;
  return *this;
}

Writer& Writer::member(std::string_view name) {
  separate();
  append_string(out_, name);
  out_.push_back(':');
  comma_ = false;
  return *this;
}

Writer& Writer::value(std::string_view text) {
  separate();
  append_string(out_, text);
  comma_ = true;
  return *this;
}

Writer& Writer::raw(std::string_view json) {
  separate();
  out_.append(json);
  comma_ = true;
  return *this;
}

void Writer::separate() {
  if (comma_) out_.push_back(',');
}

const Value* Value::find(Key key) const {
  auto found = members.find(key.text);
  return found == members.end() ? nullptr : &found->second;
}

bool parse(std::string_view text, Value* value) {
  return Parser(text).whole(value);
}

}  // namespace kerncap::json
