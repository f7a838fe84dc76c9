#include "common/conf.h"

#include <algorithm>
#include <functional>
#include <map>

#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t max_conf_bytes = 1U << 20;

using Setter = std::function<void(Conf&, const std::string&)>;

Setter flag(bool Conf::* member) {
  return [member](Conf& conf, const std::string& text) { conf.*member = text == "1"; };
}

Setter number(uint64_t Conf::* member) {
  return [member](Conf& conf, const std::string& text) { parse_u64(text, &(conf.*member)); };
}

Setter string(std::string Conf::* member) {
  return [member](Conf& conf, const std::string& text) { conf.*member = text; };
}

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"token", string(&Conf::token)},
      {"socket", string(&Conf::socket)},
      {"backends",
       [](Conf& conf, const std::string& text) {
         conf.cuda = conf.hip = false;
         for (const std::string& name : split(text, ',')) {
           conf.cuda = conf.cuda || name == "cuda";
           conf.hip = conf.hip || name == "hip";
         }
       }},
      {"launch_first",
       [](Conf& conf, const std::string& text) { conf.has_range = parse_u64(text, &conf.first); }},
      {"launch_last", number(&Conf::end)},
      {"default", flag(&Conf::by_default)},
      {"per_config", flag(&Conf::per_config)},
      {"where", [](Conf& conf, const std::string& text) { conf.where = Where(text); }},
      {"range", flag(&Conf::asks_range)},
      {"ranks",
       [](Conf& conf, const std::string& text) {
         conf.has_ranks = true;
         uint64_t rank = 0;
         for (const std::string& one : split(text, ','))
           if (parse_u64(one, &rank)) conf.ranks.push_back(static_cast<int64_t>(rank));
       }},
      {"dormant", flag(&Conf::dormant)},
      {"generation", number(&Conf::generation)},
      {"limit_kernels", number(&Conf::limit_kernels)},
      {"limit_bytes", number(&Conf::limit_bytes)},
      {"max_size", number(&Conf::max_size)},
      {"on_fault", flag(&Conf::on_fault)},
      {"fault_timeout_ns", number(&Conf::fault_timeout_ns)},
      {"when",
       [](Conf& conf, const std::string& text) {
         conf.when = text == "nonfinite" ? Conf::When::nonfinite
                     : text == "differs" ? Conf::When::differs
                                         : Conf::When::always;
       }},
      {"last", number(&Conf::last)},
      {"stop", flag(&Conf::stop)},
      {"no_values", flag(&Conf::no_values)},
      {"list_only", flag(&Conf::list_only)},
      {"drain_timeout_ns", number(&Conf::drain_timeout_ns)},
      {"chunk_bytes",
       [](Conf& conf, const std::string& text) {
         uint64_t chunk = 0;
         bool fits = parse_u64(text, &chunk) && chunk >= 4096 && chunk <= (4U << 20) && chunk % 4096 == 0;
         if (fits && (4U << 20) % chunk == 0) conf.chunk_bytes = static_cast<uint32_t>(chunk);
       }},
      {"memory",
       [](Conf& conf, const std::string& text) {
         conf.memory = text == "args"  ? Conf::Memory::args
                       : text == "all" ? Conf::Memory::all
                                       : Conf::Memory::reachable;
       }},
  };
  return all;
}

}  // namespace

const char* Conf::condition() const {
  if (on_fault) return "on_fault";
  if (when == When::nonfinite) return "nonfinite";
  return when == When::differs ? "differs" : nullptr;
}

bool Conf::wants_rank(int64_t rank) const {
  return !has_ranks || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool read_conf(const std::string& folder, uint64_t generation, Conf* conf) {
  std::string name = generation == 0 ? "session.conf" : "session-" + std::to_string(generation) + ".conf";
  std::string text = read_file(folder + "/" + name, max_conf_bytes), version;
  conf->folder = folder;
  for (const std::string& line : split(text, '\n')) {
    size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    std::string key = line.substr(0, equals);
    std::string value = percent_decode(line.substr(equals + 1));
    if (key == "version") version = value;
    auto setter = setters().find(key);
    if (setter != setters().end()) setter->second(*conf, value);
  }
  return version == "1";
}

}  // namespace kerncap
