// What OnLoad makes of tables of every kind.
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "common/capture.h"
#include "common/memory_map.h"
#include "hip/tables.h"
#include "runtime.h"

extern "C" bool OnLoad(kerncap::hip::ApiTable* tables, uint64_t, uint64_t, const char* const*);
extern "C" void OnUnload();

using namespace kerncap;
using namespace kerncap::hip;

namespace {

std::vector<Function> copy_of(const Table& table) {
  size_t count = (table.version.minor - sizeof(TableVersion)) / sizeof(Function);
  return {table.functions, table.functions + count};
}

bool load(ApiTable* tables) {
  return OnLoad(tables, 0, 0, nullptr);
}

// Every hooked slot that the tables cover, and nothing else, is another function now.
void check_hooked(const ApiTable& tables, const std::vector<Function>& core, const std::vector<Function>& amd,
                  size_t expected) {
  size_t changed = 0;
  std::vector<Function> core_now = copy_of(*tables.core), amd_now = copy_of(*tables.amd_ext);
  for (size_t i = 0; i < core.size(); ++i) changed += core[i] != core_now[i];
  for (size_t i = 0; i < amd.size(); ++i) changed += amd[i] != amd_now[i];
  CHECK(changed == expected);
}

}  // namespace

// The tests' own runtime has the functions that it needs; the others of hooks.def are null and stay so.
CASE(tables_capture_of_every_version_are_patched_once) {
  for (uint32_t major : {1U, 2U}) {
    ApiTable* tables = runtime::tables(major, major == 1 ? 48 : 72);
    std::vector<Function> core = copy_of(*tables->core), amd = copy_of(*tables->amd_ext);
    CHECK(load(tables));
    check_hooked(*tables, core, amd, 12);
    CHECK(real().hsa_queue_create != nullptr && hsa() != nullptr);
    std::vector<Function> core_once = copy_of(*tables->core);
    CHECK(load(tables));  // by HSA_TOOLS_LIB and by preload
    CHECK(core_once == copy_of(*tables->core));
    CHECK(real().hsa_queue_create != reinterpret_cast<decltype(real().hsa_queue_create)>(core_once[7]));
    OnUnload();
    CHECK(hsa() == nullptr);
  }
}

CASE(tables_capture_that_end_early_are_patched_as_far_as_they_go) {
  ApiTable* tables = runtime::tables(2, 14);  // up to hsa_amd_memory_pool_allocate
  std::vector<Function> core = copy_of(*tables->core);
  auto* beyond = tables->amd_ext->functions + 14;
  std::vector<Function> after(beyond, beyond + 40);
  CHECK(load(tables));
  CHECK(std::memcmp(after.data(), beyond, 40 * sizeof(Function)) == 0);
  CHECK(real().hsa_amd_memory_pool_free == nullptr && real().hsa_amd_memory_pool_allocate != nullptr);
}

CASE(tables_capture_of_an_unknown_version_are_left_alone) {
  ApiTable* tables = runtime::tables(3, 72);
  std::vector<Function> core = copy_of(*tables->core), amd = copy_of(*tables->amd_ext);
  CHECK(load(tables));
  check_hooked(*tables, core, amd, 0);
  CHECK(hsa() == nullptr);
}

CASE(tables_without_a_session_nothing_is_touched) {
  ApiTable* tables = runtime::tables();
  std::vector<Function> core = copy_of(*tables->core), amd = copy_of(*tables->amd_ext);
  CHECK(load(tables));
  check_hooked(*tables, core, amd, 0);
}

CASE(tables_capture_memory_comes_and_goes) {
  CHECK(load(runtime::tables()));
  float* memory = runtime::allocate(100);
  Allocation found;
  CHECK(MemoryMap::instance().find(reinterpret_cast<uint64_t>(memory) + 399, &found));
  CHECK(found.size == 400 && found.kind == RegionKind::device && found.device == 0);
  using Free = Status (*)(void*);
  auto free = runtime::call<Free>("hsa_amd_memory_pool_free");
  CHECK(free(memory + 1) != constant::success);  // refused: it stays
  CHECK(MemoryMap::instance().find(reinterpret_cast<uint64_t>(memory), &found));
  CHECK(free(memory) == constant::success);
  CHECK(!MemoryMap::instance().find(reinterpret_cast<uint64_t>(memory), &found));
}
