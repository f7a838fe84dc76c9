#include "common/listing_rows.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/device.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t max_texts = 16384;

void copy(const Dim3& from, uint32_t (&to)[3]) {
  to[0] = from.x;
  to[1] = from.y;
  to[2] = from.z;
}

void write_triple(json::Writer& json, kerncap::Key name, const uint32_t (&values)[3]) {
  json.key(name).begin_array().value(values[0]).value(values[1]).value(values[2]).end();
}

// "cuGraphLaunch node 12" is one route with all other nodes.
std::string route_of(const Launch& launch) {
  return launch.route.substr(0, launch.route.find(" node "));
}

}  // namespace

void Times::add(uint64_t time_ns) {
  add(Times{time_ns, 1, time_ns, time_ns});
}

void Times::add(const Times& other) {
  if (other.timed == 0) return;
  min_ns = timed == 0 ? other.min_ns : std::min(min_ns, other.min_ns);
  max_ns = std::max(max_ns, other.max_ns);
  sum_ns += other.sum_ns;
  timed += other.timed;
}

void Times::write(json::Writer& json) const {
  json.field(key::time_ns, sum_ns).field(key::timed, timed);
  if (timed == 0)
    json.null_field(key::min_ns).null_field(key::max_ns);
  else
    json.field(key::min_ns, min_ns).field(key::max_ns, max_ns);
}

bool Rows::Key::operator==(const Key& other) const noexcept {
  return std::memcmp(this, &other, sizeof *this) == 0;
}

size_t Rows::Hash::operator()(const Key& key) const noexcept {
  static_assert(sizeof(Key) == 72, "no padding, whose bytes could differ");
  return static_cast<size_t>(hash64(reinterpret_cast<const uint8_t*>(&key), sizeof key));
}

uint32_t Rows::text_number(const std::string& text) {
  if (texts_.size() >= max_texts && text_numbers_.count(text) == 0) return text_number("(more)");
  auto entry = text_numbers_.emplace(text, static_cast<uint32_t>(texts_.size()));
  if (entry.second) texts_.push_back(&entry.first->first);
  return entry.first->second;
}

size_t Rows::LookHash::operator()(const LookKey& key) const noexcept {
  return static_cast<size_t>(hash64(reinterpret_cast<const uint8_t*>(key.data()), sizeof key));
}

Rows::LookKey Rows::look_key(uint32_t name, const uint32_t* grid, const uint32_t* block, uint64_t stream) {
  return {name,
          grid[0],
          grid[1],
          grid[2],
          block[0],
          block[1],
          block[2],
          static_cast<uint32_t>(stream),
          static_cast<uint32_t>(stream >> 32)};
}

RowNumber Rows::count(const void* owner, const Launch& launch, ranges::Path range,
                      const std::string& config) {
  Key key;
  std::memset(&key, 0, sizeof key);
  key.owner = owner;
  key.stream = launch.stream;
  copy(launch.grid, key.grid);
  copy(launch.block, key.block);
  key.shared_bytes = launch.shared_bytes;
  key.range = range;
  key.device = launch.device;
  key.graph = launch.turn.graph;
  RowNumber number = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    key.config = text_number(config);
    key.route = text_number(route_of(launch));
    if (find_row(key, &number)) {
      note_launch(number);
      return number;
    }
  }
  // Asked once for a row, with no lock held. A graph's kernels may run on streams of its own.
  uint64_t stream =
      device()->profiler_stream(launch);  // also what starts a profiler, before the first launch
  if (launch.turn.graph >= 0) stream = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  number = add_row(key, launch.kernel, stream);
  note_launch(number);
  return number;
}

bool Rows::find_row(const Key& key, RowNumber* number) {
  auto known = numbers_.find(key);
  if (known != numbers_.end()) *number = known->second;
  return known != numbers_.end();
}

RowNumber Rows::add_row(Key key, const Kernel* kernel, uint64_t stream) {
  RowNumber number = 0;
  std::vector<RowNumber>& of_kernel = by_owner_[key.owner];
  if (of_kernel.size() >= most_of_a_kernel || rows_.size() >= most) {
    const void* owner = key.owner;
    std::memset(&key, 0, sizeof key);
    key.owner = owner;
    key.rest = 1;
    stream = 0;
  }
  if (find_row(key, &number)) return number;
  LookKey looks = look_key(text_number(kernel->name), key.grid, key.block, stream);
  if (stream != 0) streams_[stream] = key.stream;
  rows_.push_back({key, kernel, looks, 0, {}, {}});
  number = rows_.size();
  numbers_[key] = number;
  of_kernel.push_back(number);
  Alike& alike = alike_[looks];
  if (alike.rows.size() == 1) {
    const Row& only = rows_[alike.rows.front() - 1];
    uint64_t missing = only.launches > only.times.timed ? only.launches - only.times.timed : 0;
    alike.launched.assign(static_cast<size_t>(std::min<uint64_t>(missing, most_launches)),
                          alike.rows.front());
  }
  alike.rows.push_back(number);
  return number;
}

void Rows::note_launch(RowNumber number) {
  Row& row = rows_[number - 1];
  ++row.launches;
  if (!keeps_order_.load(std::memory_order_relaxed)) return;
  Alike& alike = alike_[row.looks];
  if (alike.rows.size() > 1 && alike.launched.size() < most_launches) alike.launched.push_back(number);
}

void Rows::add_time(RowNumber row, const Span& span) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (row != 0 && row <= rows_.size()) add_time_locked(rows_[row - 1], span, 0);
}

void Rows::add_time_locked(Row& row, const Span& span, uint64_t ran_on) {
  row.times.add(span.length_ns());
  if (!timeline::is_on()) return;
  if (row.key.graph < 0 && row.key.rest == 0) ran_on = 0;
  auto entry = row.things.emplace(ran_on, 0);
  if (entry.second) {
    timeline::Thing thing{word::timed::launch, row.kernel->demangled, {}, {}};
    if (row.key.rest == 0) {
      thing.config = *texts_[row.key.config];
      thing.device = row.key.device;
      thing.graph = row.key.graph;
      thing.grid = {row.key.grid[0], row.key.grid[1], row.key.grid[2]};
      thing.block = {row.key.block[0], row.key.block[1], row.key.block[2]};
      thing.stream = device()->stream_text(row.key.stream);
    }
    if (ran_on != 0) thing.stream = stream_text_locked(ran_on);
    entry.first->second = timeline::meet(thing);
  }
  timeline::add(entry.first->second, span);
}

std::string Rows::stream_text(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  return stream_text_locked(number);
}

// One on which the program launches nothing itself has its number alone.
std::string Rows::stream_text_locked(uint64_t number) {
  auto known = streams_.find(number);
  if (known != streams_.end()) return device()->stream_text(known->second);
  return "stream " + std::to_string(static_cast<uint32_t>(number));
}

void Rows::add_time(const KernelLooks& looks, const Span& span) {
  uint32_t grid[3], block[3], nothing[3] = {};
  copy(looks.grid, grid);
  copy(looks.block, block);
  std::lock_guard<std::mutex> lock(mutex_);
  auto name = text_numbers_.find(std::string(looks.name));
  if (name == text_numbers_.end()) return;  // no launch of it was counted
  auto found = alike_.find(look_key(name->second, grid, block, looks.stream));
  if (found == alike_.end())  // of a graph, or on a stream whose number could not be had
    found = alike_.find(look_key(name->second, grid, block, 0));
  if (found == alike_.end()) found = alike_.find(look_key(name->second, nothing, nothing, 0));  // the rest
  if (found == alike_.end()) return;
  Alike& alike = found->second;
  RowNumber number = alike.rows.front();
  if (!alike.launched.empty()) {
    number = alike.launched.front();
    alike.launched.pop_front();
  }
  add_time_locked(rows_[number - 1], span, looks.ran_on);
}

void Rows::write_row(const Row& row, json::Writer& json) {
  const Key& row_key = row.key;
  json.begin_object();
  if (row_key.rest != 0) {
    for (kerncap::Key name :
         {key::grid, key::block, key::shared_bytes, key::config, key::stream, key::device, key::route})
      json.null_field(name);
    json.key(key::range).begin_array().end().field(key::rest, true);
  } else {
    write_triple(json, key::grid, row_key.grid);
    write_triple(json, key::block, row_key.block);
    json.field(key::shared_bytes, row_key.shared_bytes);
    json.text_or_null(key::config, *texts_[row_key.config]);
    json.field(key::stream, device()->stream_text(row_key.stream)).field(key::device, row_key.device);
    json.key(key::range).begin_array();
    for (const std::string& name : ranges::names_of(row_key.range)) json.value(name);
    json.end().field(key::route, *texts_[row_key.route]);
    if (row_key.graph >= 0) json.field(key::graph, row_key.graph);
  }
  json.field(key::launches, row.launches);
  row.times.write(json);
  json.end();
}

void Rows::write(const void* owner, json::Writer& json) {
  std::lock_guard<std::mutex> lock(mutex_);
  Times all;
  json.key(key::rows).begin_array();
  for (RowNumber number : by_owner_[owner]) {
    write_row(rows_[number - 1], json);
    all.add(rows_[number - 1].times);
  }
  json.end();
  all.write(json);
}

void Rows::reset_after_fork() noexcept {
  new (&mutex_) std::mutex;
  rows_.clear();
  numbers_.clear();
  by_owner_.clear();
  alike_.clear();
  streams_.clear();
  keeps_order_.store(false);
}

}  // namespace kerncap
