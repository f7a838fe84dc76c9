#include "common/text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "common/hash.h"

namespace kerncap {
namespace {

constexpr auto npos = std::string::npos;

std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xEDB88320U ^ value >> 1 : value >> 1;
    table[i] = value;
  }
  return table;
}

// Where the parameter list of a demangled name opens, npos for none: the bracket that matches the
// last one, which also skips "(anonymous namespace)" and "(lambda()#1)" within the name.
size_t list_start(const std::string& name, size_t* end) {
  size_t close = name.rfind(')');
  if (close == npos) return npos;
  std::string tail = name.substr(close + 1);
  if (!tail.empty() && tail.compare(0, 6, " const") != 0 && tail.compare(0, 2, " [") != 0) return npos;
  int depth = 0;
  for (size_t at = close + 1; at-- > 0;) {
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) {
      if (name.compare(at, 21, "(anonymous namespace)") == 0) return npos;
      *end = close;
      return at;
    }
  }
  return npos;
}

int bracket_step(char c) {
  if (c == '<' || c == '(' || c == '[' || c == '{') return 1;
  return c == '>' || c == ')' || c == ']' || c == '}' ? -1 : 0;
}

}  // namespace

std::string size_text(uint64_t size_bytes) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(size_bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[48];
  if (unit == 0)
    std::snprintf(text, sizeof text, "%" PRIu64 " bytes", size_bytes);
  else
    std::snprintf(text, sizeof text, "%.4g %s", value, units[unit]);
  return text;
}

std::string seconds_text(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", static_cast<double>(ns) / 1e9);
  return text;
}

std::string hex(const uint8_t* bytes, size_t count) {
  static const char digits[] = "0123456789abcdef";
  std::string text(count * 2, '0');
  for (size_t i = 0; i < count; ++i) {
    text[2 * i] = digits[bytes[i] >> 4];
    text[2 * i + 1] = digits[bytes[i] & 15];
  }
  return text;
}

std::string address_text(uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIx64, address);
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t at = text.find(separator);
    if (at != 0) parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return parts;
}

std::vector<std::string> split_all(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool parse_u64(std::string_view text, uint64_t* value) {
  if (text.empty() || text.size() > 20) return false;
  uint64_t result = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || result > (UINT64_MAX - static_cast<uint64_t>(c - '0')) / 10) return false;
    result = result * 10 + static_cast<uint64_t>(c - '0');
  }
  *value = result;
  return true;
}

std::string without_parameters(const std::string& demangled) {
  size_t close = 0, open = list_start(demangled, &close);
  std::string name = open == npos || open == 0 ? demangled : demangled.substr(0, open);
  int depth = 0;
  for (size_t at = name.size(); at-- > 0;) {
    depth -= bracket_step(name[at]);
    // A return type stands before the name, as templates' have it; "operator T" has a space too.
    if (name[at] == ' ' && depth == 0 && name.compare(0, at, "operator") != 0) {
      if (at >= 8 && name.compare(at - 8, 8, "operator") == 0) continue;
      return name.substr(at + 1);
    }
  }
  return name;
}

bool parameter_types(const std::string& demangled, std::vector<std::string>* types) {
  size_t close = 0, open = list_start(demangled, &close);
  if (open == npos || open == 0) return false;
  std::string list = demangled.substr(open + 1, close - open - 1), current;
  int depth = 0;
  auto finish = [&] {
    size_t first = current.find_first_not_of(' '), last = current.find_last_not_of(' ');
    if (first != npos) types->push_back(current.substr(first, last - first + 1));
    current.clear();
  };
  for (char c : list) {
    depth += bracket_step(c);
    if (c == ',' && depth == 0)
      finish();
    else
      current.push_back(c);
  }
  finish();
  if (types->size() == 1 && types->front() == "void") types->clear();
  return true;
}

std::string read_file(const std::string& path, size_t limit) {
  std::string data;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return data;
  char part[4096];
  while (data.size() < limit) {
    ssize_t count = ::read(fd, part, sizeof part);
    if (count <= 0) break;
    data.append(part, static_cast<size_t>(count));
  }
  ::close(fd);
  if (data.size() > limit) data.resize(limit);
  return data;
}

uint32_t crc32(const uint8_t* bytes, size_t count) noexcept {
  static const std::array<uint32_t, 256> table = make_crc_table();
  uint32_t value = 0xFFFFFFFFU;
  for (size_t i = 0; i < count; ++i) value = table[(value ^ bytes[i]) & 255] ^ value >> 8;
  return ~value;
}

uint64_t hash64(const uint8_t* bytes, size_t count) noexcept {
  Fingerprint print = fingerprint(bytes, count);
  return print.first ^ (print.second + count);
}

}  // namespace kerncap
