// JSON out (records, questions) and in (answers).
#ifndef KERNCAP_COMMON_JSON_H
#define KERNCAP_COMMON_JSON_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "contract/contract.h"

namespace kerncap::json {

// Valid UTF-8 whatever comes in: a byte that is none becomes U+FFFD.
void append_string(std::string& out, std::string_view text);

// Builds one object or array; commas are its business.
//   Writer json; json.begin_object().field(key::pid, 1).key(key::argv).begin_array().value("x").end().end();
class Writer {
 public:
  Writer& begin_object() { return begin('{', '}'); }
  Writer& begin_array() { return begin('[', ']'); }
  Writer& end();
  Writer& key(Key key) { return member(key.text); }
  Writer& member(std::string_view name);  // one that the data names
  Writer& value(std::string_view text);
  Writer& value(const char* text) { return value(std::string_view(text)); }
  Writer& value(const std::string& text) { return value(std::string_view(text)); }
  Writer& value(bool truth) { return raw(truth ? "true" : "false"); }
  Writer& value(int64_t number) { return raw(std::to_string(number)); }
  Writer& value(uint64_t number) { return raw(std::to_string(number)); }
  Writer& value(int number) { return raw(std::to_string(number)); }
  Writer& value(uint32_t number) { return raw(std::to_string(number)); }
  Writer& null() { return raw("null"); }
  // Text that is JSON already.
  Writer& raw(std::string_view json);
  template <typename T>
  Writer& field(Key name, const T& what) {
    return key(name).value(what);
  }
  Writer& null_field(Key name) { return key(name).null(); }
  Writer& text_or_null(Key name, std::string_view text) {
    return text.empty() ? null_field(name) : field(name, text);
  }
  const std::string& text() const { return out_; }

 private:
  Writer& begin(char open, char close);
  void separate();
  std::string out_;
  std::vector<char> closers_;
  bool comma_ = false;
};

// A parsed value. `text` is a string, or a number as it was written.
struct Value {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool truth = false;
  double number = 0;
  std::string text;
  std::vector<Value> items;
  std::map<std::string, Value, std::less<>> members;

  const Value* find(Key key) const;  // null: not an object, or it has none
};

// False: not one whole JSON value, nested deeper than 32, or of more than 131,072 values. Numbers may be
// NaN and Infinity, as Python writes them; a lone \udc80 to \udcff is the byte that Python could not decode.
bool parse(std::string_view text, Value* value);

}  // namespace kerncap::json

#endif  // KERNCAP_COMMON_JSON_H
