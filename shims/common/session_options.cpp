#include "common/session_options.h"

#include <algorithm>

#include "common/json.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t max_conf_bytes = 1U << 20;
constexpr double max_timeout_s = 1e9;
constexpr uint64_t max_chunk_bytes = 4U << 20;

using json::Value;

// False, and nothing read: the default stays.
bool read(const Value& value, bool* flag) {
  if (value.kind != Value::Kind::boolean) return false;
  *flag = value.truth;
  return true;
}

bool read(const Value& value, double* number) {
  if (value.kind != Value::Kind::number) return false;
  *number = value.number;
  return true;
}

bool read(const Value& value, uint64_t* count) {
  constexpr double most = 1ULL << 62;
  if (value.kind != Value::Kind::number || !(value.number >= 0 && value.number <= most)) return false;
  *count = static_cast<uint64_t>(value.number);
  return true;
}

bool read(const Value& value, std::string* text) {
  if (value.kind != Value::Kind::string) return false;
  *text = value.text;
  return true;
}

bool read(const Value& value, std::pair<uint64_t, uint64_t>* pair) {
  return value.items.size() == 2 && read(value.items[0], &pair->first) && read(value.items[1], &pair->second);
}

bool read(const Value& value, std::vector<int64_t>* numbers) {
  for (const Value& item : value.items) {
    uint64_t number = 0;
    if (!read(item, &number)) return false;
    numbers->push_back(static_cast<int64_t>(number));
  }
  return value.kind == Value::Kind::array;
}

bool read(const Value& value, Where* where) {
  if (value.kind == Value::Kind::array) *where = Where(value);
  return value.kind == Value::Kind::array;
}

template <typename T>
bool read(const Value& value, std::optional<T>* maybe) {
  T found{};
  if (!read(value, &found)) return false;
  *maybe = std::move(found);
  return true;
}

// Chunks must fill stripes and be whole pages.
void check_chunk(Conf* conf) {
  uint64_t chunk = conf->chunk_bytes;
  if (chunk < 4096 || chunk > max_chunk_bytes || chunk % 4096 != 0 || max_chunk_bytes % chunk != 0)
    conf->chunk_bytes = Conf().chunk_bytes;
}

uint64_t as_ns(double seconds) {
  return static_cast<uint64_t>(std::clamp(seconds, 0.0, max_timeout_s) * 1e9);
}

}  // namespace

const char* Conf::condition() const {
  if (on_fault) return word::condition::on_fault;
  return when ? when->c_str() : nullptr;
}

bool Conf::wants_rank(int64_t rank) const {
  return !ranks || std::find(ranks->begin(), ranks->end(), rank) != ranks->end();
}

bool Conf::wants_shim(const char* name) const {
  return backend == word::backend::automatic || backend == name;
}

Conf::Memory Conf::reach() const {
  if (memory == word::memory::args) return Memory::args;
  return memory == word::memory::all ? Memory::all : Memory::reachable;
}

uint64_t Conf::drain_timeout_ns() const {
  return as_ns(drain_timeout_s);
}

uint64_t Conf::fault_timeout_ns() const {
  return as_ns(fault_timeout_s);
}

uint64_t Conf::collective_timeout_ns() const {
  return as_ns(collective_timeout_s);
}

bool read_conf(const std::string& folder, uint64_t generation, Conf* conf) {
  std::string name = generation == 0 ? "session.json" : "session-" + std::to_string(generation) + ".json";
  conf->folder = folder;
  Value file;
  if (!json::parse(read_file(folder + "/" + name, max_conf_bytes), &file)) return false;
  const Value *session = &file, *selection = file.find(Key{"selection"}), *keep = file.find(Key{"keep"});
  auto take = [](const Value* group, Key name, auto* member) {
    const Value* found = group != nullptr ? group->find(name) : nullptr;
    if (found != nullptr) read(*found, member);
  };
#define KERNCAP_OPTION(group, name, type, preset) take(group, Key{#name}, &conf->name);
#include "contract/options.def"
#undef KERNCAP_OPTION
  if (conf->when && conf->when != word::when::nonfinite && conf->when != word::when::differs)
    conf->when.reset();
  check_chunk(conf);
  return conf->version == 1;
}

}  // namespace kerncap
