#include <memory>

#include "check.h"
#include "common/reachable_memory.h"
#include "fake_device.h"

using namespace kerncap;

namespace {

// Memory of the test's own that counts as the target's allocations.
struct World {
  std::vector<std::unique_ptr<uint64_t[]>> memory;
  ReachableMemoryRequest request;
  Kernel kernel;
  Launch launch;

  World() {
    launch.kernel = &kernel;
    kernel.layout_known = true;
    fake_device().prepare(nullptr);
  }
  uint64_t* allocate(size_t words, RegionKind kind = RegionKind::device, const char* how = "test") {
    memory.push_back(std::make_unique<uint64_t[]>(words));
    add(memory.back().get(), words, kind, how);
    return memory.back().get();
  }
  void add(uint64_t* at, size_t words, RegionKind kind = RegionKind::device, const char* how = "test") {
    Allocation allocation;
    allocation.base = reinterpret_cast<uint64_t>(at);
    allocation.size = words * 8;
    allocation.kind = kind;
    allocation.how = how;
    request.allocations.push_back(allocation);
  }
  void parameter(uint64_t value) {
    kernel.layout.push_back({static_cast<uint32_t>(launch.parameters.size()), 8});
    auto* bytes = reinterpret_cast<uint8_t*>(&value);
    launch.parameters.insert(launch.parameters.end(), bytes, bytes + 8);
  }
  ReachableMemory find() {
    auto before = [](const Allocation& a, const Allocation& b) { return a.base < b.base; };
    std::sort(request.allocations.begin(), request.allocations.end(), before);
    ReachableMemory reachable;
    std::string why;
    CHECK(find_reachable_memory(fake_device(), launch, request, &reachable, &why));
    return reachable;
  }
};

const Region* region_at(const ReachableMemory& reachable, const uint64_t* at) {
  for (const Region& region : reachable.regions)
    if (region.base == reinterpret_cast<uint64_t>(at)) return &region;
  return nullptr;
}

uint64_t address(const uint64_t* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

void follows_chains_and_cycles(bool kernels, RegionKind kind) {
  fake_device().kernels = kernels;
  World world;
  uint64_t *a = world.allocate(1000, kind), *b = world.allocate(100000, kind), *c = world.allocate(3, kind);
  uint64_t *alone = world.allocate(64, kind), *end = world.allocate(8, kind);
  a[999] = address(b) + 8 * 777;  // into the middle
  b[99999] = address(c);
  c[1] = address(a) + 4;        // back to the first, unaligned
  c[2] = address(end) + 8 * 8;  // one past the end of it
  world.parameter(address(a) + 16);
  world.parameter(42);
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 3);
  CHECK(region_at(reachable, a)->reason == "parameter 0");
  CHECK(region_at(reachable, b)->reason.find("reached from 0x") == 0);
  CHECK(region_at(reachable, c) != nullptr && region_at(reachable, alone) == nullptr);
  CHECK(reachable.included_bytes == (1000 + 100000 + 3) * 8);
  CHECK(reachable.left_out_bytes == (64 + 8) * 8 && reachable.left_out.size() == 2);
  fake_device().kernels = true;
}

}  // namespace

CASE(reachable_memory_follows_pointers_on_the_device) {
  follows_chains_and_cycles(true, RegionKind::device);
}
CASE(reachable_memory_follows_pointers_through_the_ring) {
  follows_chains_and_cycles(false, RegionKind::device);
}
CASE(reachable_memory_follows_pointers_in_host_memory) {
  follows_chains_and_cycles(true, RegionKind::host);
}

CASE(reachable_memory_finds_arrays_that_begin_at_1) {
  World world;
  world.memory.push_back(std::make_unique<uint64_t[]>(40));
  uint64_t *first = world.memory.back().get(), *second = first + 10, *third = first + 20;
  for (uint64_t* each : {first, second, third}) world.add(each, 10);
  world.parameter(address(second) - 8);  // the last element of the first, too
  world.parameter(address(third) - 12);  // no element's size
  ReachableMemory reachable = world.find();
  CHECK(region_at(reachable, second)->reason == "parameter 0, which is 8 bytes before it");
  CHECK(region_at(reachable, first) != nullptr && region_at(reachable, third) == nullptr);
}

CASE(reachable_memory_modes) {
  World world;
  uint64_t *a = world.allocate(10), *b = world.allocate(10);
  world.allocate(10);
  a[0] = address(b);
  world.parameter(address(a));
  CHECK(world.find().regions.size() == 2);
  world.request.mode = Conf::Memory::args;
  CHECK(world.find().regions.size() == 1);
  world.request.mode = Conf::Memory::all;
  ReachableMemory all = world.find();
  CHECK(all.regions.size() == 3 && all.left_out_bytes == 0);
}

CASE(reachable_memory_finds_parameters_inside_structs) {
  World world;
  uint64_t* a = world.allocate(10);
  world.parameter(1);
  world.parameter(address(a) + 8);
  world.kernel.layout = {{0, 16}};
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 1 && reachable.regions[0].reason == "parameter 0 at byte 8");
  // With no layout a pointer may lie at any multiple of four.
  world.kernel.layout_known = false;
  world.kernel.layout.clear();
  uint64_t value = address(a);
  world.launch.parameters.assign(12, 0);
  std::memcpy(&world.launch.parameters[4], &value, 8);
  reachable = world.find();
  CHECK(reachable.regions.size() == 1 && reachable.regions[0].reason == "parameters at byte 4");
}

CASE(reachable_memory_takes_the_kernels_globals) {
  World world;
  uint64_t* target = world.allocate(10);
  uint64_t global[2] = {address(target), 0};
  Allocation allocation;
  allocation.base = reinterpret_cast<uint64_t>(global);
  allocation.size = sizeof global;
  allocation.kind = RegionKind::global;
  allocation.name = "table";
  world.request.globals.push_back(allocation);
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 2);
  CHECK(reachable.regions[0].name == "table" && reachable.regions[0].reason == "global table");
  CHECK(reachable.regions[0].kind == RegionKind::global && reachable.regions[0].module == 0);
}

CASE(reachable_memory_numbers_other_modules_globals) {
  World world;
  uint64_t other[1] = {7};
  static int module;
  Allocation allocation;
  allocation.base = reinterpret_cast<uint64_t>(other);
  allocation.size = sizeof other;
  allocation.kind = RegionKind::global;
  allocation.name = "counter";
  allocation.module = &module;
  world.request.allocations.push_back(allocation);
  world.parameter(reinterpret_cast<uint64_t>(other));
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 1 && reachable.regions[0].module == 1 &&
        reachable.regions[0].name == "counter");
}

CASE(reachable_memory_merges_neighbouring_mappings) {
  World world;
  auto block = std::make_unique<uint64_t[]>(300);
  for (int i = 0; i < 3; ++i) world.add(&block[i * 100], 100, RegionKind::device, "cuMemMap");
  world.parameter(address(&block[150]));
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 1 && reachable.regions[0].size == 2400);
  // cuMemAlloc'd neighbours are two things.
  World apart;
  for (int i = 0; i < 3; ++i) apart.add(&block[i * 100], 100);
  apart.parameter(address(&block[150]));
  CHECK(apart.find().regions.size() == 1 && apart.find().regions[0].size == 800);
}

CASE(reachable_memory_leaves_multicast_memory_alone) {
  World world;
  uint64_t* data = world.allocate(10);
  uint64_t* several = world.allocate(20);
  several[3] = address(world.allocate(5));  // which nobody may look for
  for (Allocation& allocation : world.request.allocations)
    if (allocation.base == address(several)) allocation.shared = Shared::multicast;
  world.parameter(address(data));
  world.parameter(address(&several[2]));
  world.parameter(address(&several[4]));
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 1 && reachable.not_held.size() == 1);
  CHECK(reachable.not_held[0].compare(0, 12, "parameter 1:") == 0);
  CHECK(reachable.not_held[0].find("several devices") != std::string::npos);
}

CASE(reachable_memory_says_whose_else_memory_is) {
  World world;
  auto block = std::make_unique<uint64_t[]>(200);
  for (int i = 0; i < 2; ++i) world.add(&block[i * 100], 100, RegionKind::device, "cuMemMap");
  world.request.allocations[1].shared = Shared::imported;
  world.request.allocations[1].owner = 3;
  world.parameter(address(&block[50]));
  world.parameter(address(&block[150]));
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 2 && reachable.not_held.empty());  // neighbours, and yet two
  CHECK(region_at(reachable, &block[0])->shared.empty());
  CHECK(region_at(reachable, &block[100])->shared == "another process's memory on device 3 (cuMemMap)");
}

CASE(reachable_memory_narrows_to_live_blocks) {
  World world;
  uint64_t* segment = world.allocate(1000);
  auto block = [&](size_t first, size_t words, uint64_t live) {
    for (uint64_t value : {address(segment + first), uint64_t{words * 8}, live})
      world.request.mirror.push_back(value);
  };
  block(600, 100, 1);
  block(0, 100, 1);
  block(100, 500, 0);
  segment[50] = address(&segment[650]);
  world.parameter(address(&segment[10]));
  ReachableMemory reachable = world.find();
  CHECK(reachable.regions.size() == 2 && reachable.included_bytes == 1600 &&
        reachable.left_out_bytes == 6400);
  CHECK(region_at(reachable, &segment[600])->size == 800);
  // A pointer to a dead part takes it whole.
  segment[60] = address(&segment[300]);
  reachable = world.find();
  CHECK(reachable.regions.size() == 1 && reachable.included_bytes == 8000 && reachable.left_out_bytes == 0);
  // A block that does not fit its allocation says nothing.
  World odd;
  uint64_t* other = odd.allocate(10);
  odd.request.mirror = {address(other), 8000, 1};
  odd.parameter(address(other));
  CHECK(odd.find().included_bytes == 80);
}

CASE(reachable_memory_leaves_out_what_cannot_be_read) {
  World world;
  uint64_t *a = world.allocate(10), *b = world.allocate(10);
  a[0] = address(b);
  world.parameter(address(a));
  fake_device().unreadable = address(b);
  ReachableMemory reachable = world.find();
  fake_device().unreadable = 0;
  CHECK(reachable.regions.size() == 1 && reachable.notes.size() == 1);
}

CASE(reachable_memory_stops_when_it_is_too_much) {
  World world;
  std::vector<uint64_t*> chain;
  for (int i = 0; i < 20; ++i) chain.push_back(world.allocate(1000));
  for (int i = 0; i + 1 < 20; ++i) chain[i][0] = address(chain[i + 1]);
  world.parameter(address(chain[0]));
  world.request.max_size = 20000;
  ReachableMemory reachable = world.find();
  CHECK(reachable.unfinished && reachable.included_bytes > 20000 && reachable.regions.size() < 20);
  CHECK(describe_sizes(reachable.regions).find("parameter 0: 7.812 KiB") != std::string::npos);
}

CASE(reachable_memory_reaches_textures_by_their_numbers) {
  World world;
  uint64_t *a = world.allocate(10), *texels = world.allocate(10);
  auto add = [&](uint64_t handle, uint64_t array, uint64_t size, const char* problem = "") {
    TextureObject object;
    object.handle = handle;
    object.kind = word::texture_kind::texture;
    object.array = array;
    object.shape.size = size;
    object.address = array == 0 ? address(texels) + 8 : 0;
    object.problem = problem;
    world.request.textures.push_back(object);
  };
  add(2, 77, 4096);
  add(3, 0, 0);
  add(4, 78, 1 << 20);
  add(5, 77, 4096);
  add(5, 79, 100);
  a[3] = 5;
  a[4] = 3;
  world.parameter(address(a));
  world.parameter(2);
  ReachableMemory reachable = world.find();
  CHECK(reachable.textures.size() == 4 && reachable.refusal.empty());
  CHECK(reachable.textures[0].handle == 2 && reachable.textures[0].reason == "parameter 1");
  CHECK(reachable.textures[1].reason.find("reached from 0x") == 0);
  // The memory behind the linear one; an array that two objects share counts once.
  CHECK(reachable.regions.size() == 2 && region_at(reachable, texels)->reason == "texture object 3");
  CHECK(reachable.included_bytes == 160 + 4096 + 100 && reachable.stored_bytes == reachable.included_bytes);
  CHECK(reachable.left_out.empty());
  // What can't be copied is a note, and as a parameter a refusal.
  a[5] = 6;
  add(6, 80, 64, "its array has format 145");
  reachable = world.find();
  CHECK(reachable.textures.size() == 4 && reachable.refusal.empty() && reachable.notes.size() == 1);
  world.parameter(6);
  CHECK(world.find().refusal.find("parameter 2 may be texture object 6, which") == 0);
}
