// Declarations of a PTX text: entries with their parameters, variables with simple initialisers.
// Source: the PTX ISA manual, "State Spaces, Types, and Variables" and "Directives".
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "state.h"

namespace rig {

namespace {

std::string without_comments(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "/*") == 0) {
      size_t end = text.find("*/", i + 2);
      i = end == std::string::npos ? text.size() : end + 2;
      out += ' ';
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  auto flush = [&] {
    if (!word.empty()) out.push_back(word);
    word.clear();
  };
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)))
      flush();
    else if (std::strchr("[](){}=,;", c))
      flush(), out.push_back(std::string(1, c));
    else
      word += c;
  }
  flush();
  return out;
}

size_t type_bytes(const std::string& word) {
  static const std::map<std::string, size_t> sizes = {
      {".b8", 1},    {".u8", 1},   {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2},
      {".f16", 2},   {".bf16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},
      {".f16x2", 4}, {".b64", 8},  {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16}};
  auto found = sizes.find(word);
  return found == sizes.end() ? 0 : found->second;
}

struct Declared {
  std::string name;
  size_t element = 0, count = 1, alignment = 0;
  size_t initialiser = 0;  // index of the word after '='; 0: none
  bool extern_ = false, managed = false;
};

// `.global .align 4 .u32 name[2][3] = …`
Declared declared(const std::vector<std::string>& w) {
  Declared d;
  bool pointer = false;  // `.ptr … .align n` is of what it points to
  for (size_t i = 0; i < w.size(); ++i) {
    if (w[i] == "=") {
      d.initialiser = i + 1;
      break;
    }
    if (w[i] == ".extern")
      d.extern_ = true;
    else if (w[i] == ".managed")
      d.managed = true;
    else if (w[i] == ".ptr")
      pointer = true;
    else if (w[i] == ".align" && i + 1 < w.size()) {
      size_t n = std::strtoul(w[++i].c_str(), nullptr, 0);
      if (!pointer) d.alignment = n;
    } else if (size_t bytes = type_bytes(w[i]))
      d.element = bytes;
    else if (w[i] == "[") {
      size_t n = i + 1 < w.size() && w[i + 1] != "]" ? std::strtoul(w[i + 1].c_str(), nullptr, 0) : 0;
      d.count *= n;
      while (i < w.size() && w[i] != "]") ++i;
    } else if (w[i][0] != '.' && !std::strchr("(){},;", w[i][0]))
      d.name = w[i];
  }
  if (!d.alignment) d.alignment = std::max<size_t>(d.element, 1);
  return d;
}

void read_initialiser(const std::vector<std::string>& w, const Declared& d, Variable* variable) {
  for (size_t i = d.initialiser; i < w.size(); ++i) {
    const std::string& text = w[i];
    if (text == "{" || text == "}" || text == "," || text == ";") continue;
    uint64_t bits = 0;
    if (text.rfind("0f", 0) == 0 || text.rfind("0F", 0) == 0 || text.rfind("0d", 0) == 0 ||
        text.rfind("0D", 0) == 0)
      bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    else
      bits = static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 0));
    auto* bytes = reinterpret_cast<const uint8_t*>(&bits);
    variable->initial.insert(variable->initial.end(), bytes, bytes + std::min<size_t>(d.element, 8));
  }
}

bool read_entry(const std::string& head, const std::string& body, ParsedImage* parsed) {
  std::vector<std::string> w = words(head);
  auto entry = std::find(w.begin(), w.end(), ".entry");
  if (entry == w.end() || entry + 1 == w.end()) return false;
  KernelImage kernel;
  kernel.name = *(entry + 1);
  std::vector<std::string> parameter;
  auto finish = [&] {
    if (parameter.empty()) return;
    Declared d = declared(parameter);
    size_t offset = (kernel.parameter_bytes + d.alignment - 1) / d.alignment * d.alignment;
    kernel.parameters.push_back({offset, d.element * d.count});
    kernel.parameter_bytes = offset + d.element * d.count;
    parameter.clear();
  };
  auto at = std::find(entry, w.end(), "(");
  for (; at != w.end() && *at != ")"; ++at) {
    if (*at == "(") continue;
    if (*at == ",")
      finish();
    else
      parameter.push_back(*at);
  }
  finish();
  for (size_t i = 0; (i = body.find(".shared", i)) != std::string::npos; ++i) {
    // A declaration, not the state space of an instruction such as ld.shared.u32.
    if (i && !std::strchr(" \t\n{;", body[i - 1])) continue;
    Declared d = declared(words(body.substr(i, body.find(';', i) - i)));
    kernel.shared_bytes += d.element * d.count;
  }
  parsed->kernels.push_back(kernel);
  return true;
}

void read_variable(const std::string& statement, ParsedImage* parsed) {
  std::vector<std::string> w = words(statement);
  bool constant = std::find(w.begin(), w.end(), ".const") != w.end();
  if (!constant && std::find(w.begin(), w.end(), ".global") == w.end()) return;
  Declared d = declared(w);
  if (d.extern_ || d.name.empty()) return;
  Variable variable;
  variable.name = d.name;
  variable.size = d.element * d.count;
  variable.alignment = d.alignment;
  variable.constant = constant;
  variable.managed = d.managed;
  if (d.initialiser) read_initialiser(w, d, &variable);
  parsed->variables.push_back(variable);
}

size_t closing(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::string::npos;
}

}  // namespace

bool parse_ptx(const std::string& given, ParsedImage* parsed) {
  std::string text = without_comments(given);
  size_t version = text.find(".version");
  if (version == std::string::npos) return false;
  parsed->is_ptx = true;
  // The first three directives end with their lines.
  size_t start = text.find(".address_size");
  start = text.find('\n', start == std::string::npos ? text.find(".target") : start);
  for (size_t at = start; at < text.size();) {
    size_t end = text.find_first_of(";{", at);
    if (end == std::string::npos) break;
    std::string head = text.substr(at, end - at);
    bool is_code = head.find(".entry") != std::string::npos || head.find(".func") != std::string::npos;
    if (text[end] == '{') {
      size_t close = closing(text, end);
      if (close == std::string::npos) return false;
      if (is_code) {
        if (head.find(".entry") != std::string::npos &&
            !read_entry(head, text.substr(end, close - end), parsed))
          return false;
        at = close + 1;
        continue;
      }
      end = text.find(';', close);  // an initialiser
      if (end == std::string::npos) return false;
    }
    if (!is_code) read_variable(text.substr(at, end - at), parsed);
    at = end + 1;
  }
  return true;
}

}  // namespace rig
