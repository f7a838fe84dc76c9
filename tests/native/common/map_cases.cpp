#include <cstdlib>
#include <map>
#include <random>

#include "check.h"
#include "common/memory_map.h"

using namespace kerncap;

namespace {

Allocation at(uint64_t base, uint64_t size) {
  Allocation allocation;
  allocation.base = base;
  allocation.size = size;
  allocation.how = "test";
  return allocation;
}

}  // namespace

CASE(map_finds_edges) {
  MemoryMap& map = MemoryMap::instance();
  map.add(at(0x1000, 0x100));
  Allocation found;
  CHECK(map.find(0x1000, &found) && found.base == 0x1000);
  CHECK(map.find(0x10FF, &found));
  CHECK(!map.find(0x1100, &found));  // one past the end belongs to nobody
  CHECK(!map.find(0xFFF, &found));
  map.add(at(0x1100, 0x100));
  CHECK(map.find(0x1100, &found) && found.base == 0x1100);
  uint64_t serial = found.serial;
  map.add(at(0x1100, 0x80));  // the address came back: a free was missed
  CHECK(map.find(0x1100, &found) && found.size == 0x80 && found.serial > serial);
  CHECK(map.find(0x1180, &found) && found.base == 0x1180);  // what the newer one left of the older
  CHECK(map.remove(0x1000) && !map.remove(0x1000) && !map.remove(0x1010));
}

CASE(map_removes_ranges_modules_devices) {
  MemoryMap& map = MemoryMap::instance();
  map.add(at(0x10000, 0x3000));
  map.remove_range(0x11000, 0x1000);
  Allocation found;
  CHECK(map.find(0x10FFF, &found) && found.base == 0x10000 && found.size == 0x1000);
  CHECK(!map.find(0x11000, &found) && !map.find(0x11FFF, &found));
  CHECK(map.find(0x12000, &found) && found.base == 0x12000 && found.size == 0x1000);
  int one = 0, other = 0;
  Allocation global = at(0x20000, 16);
  global.kind = RegionKind::global;
  global.module = &one;
  map.add(global);
  global.base = 0x20100;
  global.module = &other;
  global.device = 1;
  map.add(global);
  map.remove_module(&one);
  CHECK(!map.find(0x20000, &found) && map.find(0x20100, &found));
  map.clear_device(1);
  CHECK(!map.find(0x20100, &found) && map.find(0x12000, &found));
}

// Against the plainest model there is: an owner for every address.
CASE(map_behaves_like_a_model) {
  MemoryMap& map = MemoryMap::instance();
  std::mt19937 random(20240501);
  constexpr uint64_t base = 1000, span = 200;
  int owner[span] = {};
  std::map<uint64_t, uint64_t> bases;
  for (int step = 1; step < 20000; ++step) {
    uint64_t start = random() % span, size = 1 + random() % (span - start);
    if (random() % 2 == 0) {
      map.add(at(base + start, size));
      for (uint64_t i = start; i < start + size; ++i) owner[i] = step;
    } else {
      map.remove_range(base + start, size);
      for (uint64_t i = start; i < start + size; ++i) owner[i] = 0;
    }
    Allocation first, second;
    for (int probe = 0; probe < 8; ++probe) {
      uint64_t a = random() % span, b = random() % span;
      bool in_a = map.find(base + a, &first), in_b = map.find(base + b, &second);
      CHECK(in_a == (owner[a] != 0) && in_b == (owner[b] != 0));
      if (in_a && in_b && first.base == second.base) CHECK(owner[a] == owner[b]);
    }
  }
  uint64_t last = 0;
  for (const Allocation& allocation : map.snapshot()) {
    CHECK(allocation.base >= last && allocation.size > 0);
    last = allocation.base + allocation.size;
  }
}
