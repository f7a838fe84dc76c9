// FLAT, GLOBAL and SCRATCH: loads and stores.
// Source: AMD Instinct MI300 ISA, "Flat Memory Instructions".
#include "access.h"
#include "flat_path.h"

namespace amd_gpu {

void add_memory(Table& table) {
  add_loads_and_stores<FlatPath<Space::flat>>(table, "flat_");
  add_loads_and_stores<FlatPath<Space::global>>(table, "global_");
  add_loads_and_stores<FlatPath<Space::scratch>>(table, "scratch_");
  add_loads_to_lds<FlatPath<Space::global>>(table, "global_");
  add_loads_to_lds<FlatPath<Space::scratch>>(table, "scratch_");
}

}  // namespace amd_gpu
