#include "common/nvtx_ranges.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "common/clock.h"
#include "common/timeline.h"

namespace kerncap::ranges {
namespace {

constexpr size_t max_name_bytes = 256, max_names = 16384, max_paths = 16384, max_depth = 128;

using Name = uint32_t;
constexpr Name unnamed = UINT32_MAX;

// A program opens many more ranges than anybody asks for: a name gets its number, and a thread's range its
// serial, when somebody does.
struct Open {
  const void* domain = nullptr;
  std::string text{};
  Name name = unnamed;
  uint64_t serial = 0;    // 0: none yet
  uint64_t start_ns = 0;  // 0: nobody asks
};

uint64_t start_ns() noexcept {
  return timeline::is_on() ? now_ns() : 0;
}

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, Name> names;
  std::vector<const std::string*> texts;  // by name
  std::map<std::vector<Name>, Path> paths;
  std::vector<const std::vector<Name>*> members;  // by path
  std::vector<Open> process_ranges;               // in the order in which they were started

  Table() { members.push_back(&paths.emplace(std::vector<Name>(), 0).first->first); }
};

Table& table() {
  static auto* instance = new Table;  // never destroyed: threads launch until the end
  return *instance;
}

std::atomic<bool> used{false}, told{false};
std::atomic<uint64_t> process_changes{0}, serials{0};

struct Thread {
  std::vector<Open> stack;  // beyond `depth`: ended, kept for the memory of their texts
  size_t depth = 0;
  size_t too_deep = 0;  // pushed beyond what is kept
  bool changed = true;
  uint64_t process_seen = 0;
  Path path = 0;
};

thread_local Thread* mine = nullptr;

struct Leaver {
  bool armed = false;
  ~Leaver() {
    delete mine;
    mine = nullptr;
  }
};
thread_local Leaver leaver;

Thread& thread() {
  if (mine == nullptr) {
    leaver.armed = true;  // its construction registers the thread's end
    mine = new Thread;
  }
  return *mine;
}

Name name_of(Table& all, std::string_view text) {
  if (all.names.size() >= max_names) text = "(more names)";
  auto entry = all.names.emplace(std::string(text.substr(0, max_name_bytes)), all.texts.size());
  if (entry.second) all.texts.push_back(&entry.first->first);
  return entry.first->second;
}

Name name_of(Table& all, Open* range) {
  if (range->name == unnamed) range->name = name_of(all, range->text);
  return range->name;
}

Path path_of(Table& all, std::vector<Name> names) {
  auto known = all.paths.find(names);
  if (known != all.paths.end()) return known->second;
  if (all.paths.size() >= max_paths) {
    names.assign(1, name_of(all, "(more ranges)"));
    known = all.paths.find(names);
    if (known != all.paths.end()) return known->second;
  }
  auto entry = all.paths.emplace(std::move(names), all.members.size()).first;
  all.members.push_back(&entry->first);
  return entry->second;
}

int depth_in(const Thread& thread, const void* domain) {
  int depth = static_cast<int>(thread.too_deep);
  for (size_t i = 0; i < thread.depth; ++i) depth += thread.stack[i].domain == domain ? 1 : 0;
  return depth;
}

void has_closed(Open* range, bool is_a_threads) noexcept try {
  if (range->start_ns == 0) return;
  timeline::Thing thing{word::timed::range, {}, {}, {}};
  {
    std::lock_guard<std::mutex> lock(table().mutex);
    thing.name = *table().texts[name_of(table(), range)];
  }
  if (is_a_threads) thing.thread = ::syscall(SYS_gettid);
  timeline::add(timeline::meet(thing), {range->start_ns, now_ns()});
} catch (const std::bad_alloc&) {
  // The timeline lacks it.
}

}  // namespace

int push(const void* domain, std::string_view name) noexcept try {
  used.store(true, std::memory_order_relaxed);
  Thread& here = thread();
  int depth = depth_in(here, domain);
  if (here.depth >= max_depth) {
    ++here.too_deep;
    return depth;
  }
  if (here.depth == here.stack.size()) here.stack.emplace_back();
  Open& range = here.stack[here.depth];
  range.text.assign(name.substr(0, max_name_bytes));
  range.domain = domain;
  range.name = unnamed;
  range.serial = 0;
  range.start_ns = start_ns();
  ++here.depth;
  here.changed = true;
  return depth;
} catch (const std::bad_alloc&) {
  return 0;  // that range is not told
}

int pop(const void* domain) noexcept {
  if (mine == nullptr) return -1;
  if (mine->too_deep != 0) {
    --mine->too_deep;
    return depth_in(*mine, domain);
  }
  std::vector<Open>& stack = mine->stack;
  for (size_t i = mine->depth; i-- > 0;) {
    if (stack[i].domain != domain) continue;
    has_closed(&stack[i], true);
    const auto ended = stack.begin() + static_cast<ptrdiff_t>(i);
    std::rotate(ended, ended + 1, stack.begin() + static_cast<ptrdiff_t>(mine->depth--));
    mine->changed = true;
    return depth_in(*mine, domain);
  }
  return -1;
}

uint64_t start(std::string_view name) noexcept try {
  Table& all = table();
  std::lock_guard<std::mutex> lock(all.mutex);
  uint64_t number = ++serials;
  if (all.process_ranges.size() < max_depth)
    all.process_ranges.push_back({nullptr, {}, name_of(all, name), number, start_ns()});
  process_changes.fetch_add(1, std::memory_order_release);
  used.store(true, std::memory_order_relaxed);
  return number;
} catch (const std::bad_alloc&) {
  return UINT64_MAX;
}

void end(uint64_t range) noexcept {
  if (!used.load(std::memory_order_relaxed)) return;
  Table& all = table();
  Open closed{};
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    for (size_t i = 0; i < all.process_ranges.size(); ++i) {
      if (all.process_ranges[i].serial != range) continue;
      closed = std::move(all.process_ranges[i]);
      all.process_ranges.erase(all.process_ranges.begin() + static_cast<ptrdiff_t>(i));
      process_changes.fetch_add(1, std::memory_order_release);
      break;
    }
  }
  has_closed(&closed, false);
}

void close_all() noexcept try {
  if (!timeline::is_on()) return;
  for (; mine != nullptr && mine->depth != 0; --mine->depth) has_closed(&mine->stack[mine->depth - 1], true);
  std::vector<Open> left;
  {
    std::lock_guard<std::mutex> lock(table().mutex);
    left.swap(table().process_ranges);
  }
  for (Open& range : left) has_closed(&range, false);
} catch (const std::bad_alloc&) {
  // The timeline lacks them.
}

void are_told() noexcept {
  told.store(true);
}

bool is_told() noexcept {
  return told.load();
}

Path here() noexcept try {
  if (!used.load(std::memory_order_relaxed)) return 0;
  Thread& thread = ranges::thread();
  uint64_t process = process_changes.load(std::memory_order_acquire);
  if (!thread.changed && thread.process_seen == process) return thread.path;
  Table& all = table();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<Name> names;
  for (const Open& range : all.process_ranges) names.push_back(range.name);
  for (size_t i = 0; i < thread.depth; ++i) names.push_back(name_of(all, &thread.stack[i]));
  thread.path = path_of(all, std::move(names));
  thread.changed = false;
  thread.process_seen = process;
  return thread.path;
} catch (const std::bad_alloc&) {
  return 0;
}

std::vector<std::string> names_of(Path path) {
  std::vector<std::string> names;
  if (path == 0) return names;
  Table& all = table();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (path < all.members.size())
    for (Name name : *all.members[path]) names.push_back(*all.texts[name]);
  return names;
}

std::vector<uint64_t> serials_here() {
  std::vector<uint64_t> found;
  if (!used.load(std::memory_order_relaxed)) return found;
  Table& all = table();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    for (const Open& range : all.process_ranges) found.push_back(range.serial);
  }
  Thread& here = thread();
  for (size_t i = 0; i < here.depth; ++i) {
    if (here.stack[i].serial == 0) here.stack[i].serial = ++serials;
    found.push_back(here.stack[i].serial);
  }
  return found;
}

std::string text_of(Path path) {
  std::string text;
  for (const std::string& name : names_of(path)) {
    if (!text.empty()) text += '/';
    text += name;
  }
  return text;
}

void reset_after_fork() noexcept {
  if (used.load()) new (&table().mutex) std::mutex;
}

}  // namespace kerncap::ranges
