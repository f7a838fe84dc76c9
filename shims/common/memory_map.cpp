#include "common/memory_map.h"

#include <map>
#include <mutex>
#include <new>

namespace kerncap {
namespace {

using Map = std::map<uint64_t, Allocation>;

struct State {
  std::mutex mutex;
  Map by_base;
  uint64_t serial = 0;
  uint64_t frozen = UINT64_MAX;  // the last serial that a capture may read
};

// Made on first use and never destroyed: threads of the target allocate until the very end.
State& state() noexcept {
  alignas(State) static char storage[sizeof(State)];
  static State* made = new (storage) State;
  return *made;
}

// The first entry that may reach into an address.
Map::iterator first_touching(Map& map, uint64_t address) {
  auto at = map.upper_bound(address);
  if (at != map.begin()) {
    auto before = std::prev(at);
    if (before->second.base + before->second.size > address) return before;
  }
  return at;
}

// Takes [base, end) out; what sticks out on either side stays.
void cut(Map& map, uint64_t base, uint64_t end) {
  auto at = first_touching(map, base);
  while (at != map.end() && at->second.base < end) {
    Allocation old = at->second;
    at = map.erase(at);
    uint64_t old_end = old.base + old.size;
    if (old_end > end) {
      Allocation right = old;
      right.base = end;
      right.size = old_end - end;
      at = map.emplace(end, right).first;
    }
    if (old.base < base) {
      old.size = base - old.base;
      map.emplace(old.base, old);
    }
  }
}

template <typename Wanted>
void remove_if(Wanted wanted) noexcept {
  State& map = state();
  std::lock_guard<std::mutex> lock(map.mutex);
  for (auto at = map.by_base.begin(); at != map.by_base.end();)
    at = wanted(at->second) ? map.by_base.erase(at) : std::next(at);
}

}  // namespace

MemoryMap& MemoryMap::instance() noexcept {
  static MemoryMap map;
  return map;
}

void MemoryMap::add(const Allocation& allocation) noexcept {
  if (allocation.size == 0 || allocation.base + allocation.size < allocation.base) return;
  State& map = state();
  try {
    std::lock_guard<std::mutex> lock(map.mutex);
    cut(map.by_base, allocation.base, allocation.base + allocation.size);
    Allocation added = allocation;
    added.serial = ++map.serial;
    map.by_base[added.base] = std::move(added);
  } catch (const std::bad_alloc&) {
    // Not known then: a launch that reaches it is captured without it.
  }
}

bool MemoryMap::remove(uint64_t base) noexcept {
  State& map = state();
  std::lock_guard<std::mutex> lock(map.mutex);
  return map.by_base.erase(base) != 0;
}

void MemoryMap::freeze() noexcept {
  State& map = state();
  std::lock_guard<std::mutex> lock(map.mutex);
  map.frozen = map.serial;
}

void MemoryMap::thaw() noexcept {
  State& map = state();
  std::lock_guard<std::mutex> lock(map.mutex);
  map.frozen = UINT64_MAX;
}

bool MemoryMap::remove_added_since(uint64_t base, Allocation* removed) noexcept {
  State& map = state();
  std::lock_guard<std::mutex> lock(map.mutex);
  auto at = map.by_base.find(base);
  if (at == map.by_base.end() || at->second.serial <= map.frozen) return false;
  *removed = std::move(at->second);
  map.by_base.erase(at);
  return true;
}

void MemoryMap::remove_range(uint64_t base, uint64_t size) noexcept {
  State& map = state();
  try {
    std::lock_guard<std::mutex> lock(map.mutex);
    cut(map.by_base, base, base + size);
  } catch (const std::bad_alloc&) {
    // What is left over is asked of the driver before it is read (Device::is_readable).
  }
}

void MemoryMap::remove_module(const void* module) noexcept {
  remove_if([&](const Allocation& a) { return a.kind == RegionKind::global && a.module == module; });
}

void MemoryMap::clear_device(int device) noexcept {
  remove_if([&](const Allocation& a) { return a.device == device && a.kind != RegionKind::host; });
}

bool MemoryMap::find(uint64_t address, Allocation* found) const noexcept {
  State& map = state();
  try {
    std::lock_guard<std::mutex> lock(map.mutex);
    auto at = map.by_base.upper_bound(address);
    if (at == map.by_base.begin()) return false;
    --at;
    if (address - at->second.base >= at->second.size) return false;
    *found = at->second;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void MemoryMap::exported(uint64_t base, uint64_t handle) noexcept {
  State& map = state();
  std::lock_guard<std::mutex> lock(map.mutex);
  for (auto& [start, allocation] : map.by_base)
    if (allocation.shared == Shared::no && allocation.kind == RegionKind::device &&
        (handle != 0 ? allocation.handle == handle : start == base))
      allocation.shared = Shared::exported;
}

std::vector<Allocation> MemoryMap::snapshot() const noexcept {
  State& map = state();
  std::vector<Allocation> all;
  try {
    std::lock_guard<std::mutex> lock(map.mutex);
    all.reserve(map.by_base.size());
    for (const auto& entry : map.by_base) all.push_back(entry.second);
  } catch (const std::bad_alloc&) {
    all.clear();
  }
  return all;
}

void MemoryMap::reset_after_fork() noexcept {
  // Another thread may have held the lock when the process split; the child has no device yet.
  new (&state()) State;
}

}  // namespace kerncap
