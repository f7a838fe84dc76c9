#include "common/timeline.h"

#include <atomic>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/glibc_floor.h"

namespace kerncap::timeline {
namespace {

constexpr size_t events_of_a_record = 8192;

struct Event {
  ThingNumber thing;
  Span span;
  uint64_t bytes;
};

struct Kept {
  std::mutex mutex;
  std::unordered_map<std::string, ThingNumber> things;  // by their JSON
  std::vector<const std::string*> new_things;
  std::vector<Event> events;
  size_t added = 0;
  uint64_t lost = 0;
};
Kept& kept() {
  static auto* instance = new Kept;
  return *instance;
}

std::atomic<bool> on{false}, due{false};

void write_dim(json::Writer& json, Key name, const Dim3& dim) {
  json.key(name).begin_array().value(dim.x).value(dim.y).value(dim.z).end();
}

std::string text_of(const Thing& thing) {
  json::Writer json;
  json.begin_object().field(key::kind, thing.kind).field(key::name, thing.name);
  if (!thing.config.empty()) json.field(key::config, thing.config);
  if (!thing.stream.empty()) json.field(key::stream, thing.stream);
  if (thing.device >= 0) json.field(key::device, thing.device);
  if (thing.thread >= 0) json.field(key::thread, thing.thread);
  if (thing.graph >= 0) json.field(key::graph, thing.graph);
  if (thing.grid.x != 0) {
    write_dim(json, key::grid, thing.grid);
    write_dim(json, key::block, thing.block);
  }
  json.end();
  return json.text();
}

}  // namespace

void turn_on() noexcept {
  on.store(true);
}

bool is_on() noexcept {
  return on.load(std::memory_order_relaxed);
}

ThingNumber meet(const Thing& thing) {
  std::string text = text_of(thing);
  Kept& all = kept();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.things.size() >= most_things && all.things.count(text) == 0) return most_things;
  auto entry = all.things.emplace(std::move(text), static_cast<ThingNumber>(all.things.size()));
  if (entry.second) all.new_things.push_back(&entry.first->first);
  return entry.first->second;
}

void add(ThingNumber thing, const Span& span, uint64_t bytes) noexcept {
  Kept& all = kept();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (span.start_ns == 0 || span.end_ns < span.start_ns || thing >= most_things || all.added >= most_events) {
    ++all.lost;
    return;
  }
  try {
    all.events.push_back({thing, span, bytes});
    ++all.added;
  } catch (const std::bad_alloc&) {
    ++all.lost;
  }
  if (all.events.size() >= events_of_a_record) due.store(true, std::memory_order_relaxed);
}

bool is_due() noexcept {
  return due.load(std::memory_order_relaxed);
}

bool write(json::Writer& json) {
  if (!is_on()) return false;
  std::vector<Event> events;
  std::vector<const std::string*> things;
  uint64_t lost = 0;
  Kept& all = kept();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    events.swap(all.events);
    things.swap(all.new_things);
    std::swap(lost, all.lost);
    due.store(false);
  }
  if (events.empty() && things.empty() && lost == 0) return false;
  json.begin_object().key(key::things).begin_array();
  for (const std::string* thing : things) json.raw(*thing);
  json.end().key(key::events).begin_array();
  for (const Event& event : events)
    json.begin_array()
        .value(event.thing)
        .value(event.span.start_ns)
        .value(event.span.length_ns())
        .value(event.bytes)
        .end();
  json.end().field(key::lost, lost).end();
  return true;
}

void reset_after_fork() noexcept {
  if (!is_on()) return;
  Kept& all = kept();
  new (&all.mutex) std::mutex;
  all.things.clear();
  all.new_things.clear();
  all.events.clear();
  all.added = all.lost = 0;
  due.store(false);
}

}  // namespace kerncap::timeline
