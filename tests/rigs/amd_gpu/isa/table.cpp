// All instructions. A new one is one line in the file of its subject; README.md says how.
#include "instruction.h"

namespace amd_gpu {

const Table& Table::of(Target target) {
  const auto make = [](Target wanted) {
    auto* made = new Table;  // leaked: queues of a process that exits may still run
    for (auto add :
         {add_scalar_arithmetic, add_scalar_bits, add_scalar_compare, add_scalar_memory, add_vector_float,
          add_vector_double,     add_vector_half, add_vector_integer, add_vector_bits,   add_carries,
          add_division,          add_compare,     add_convert,        add_packed,        add_dot,
          add_cross_lane,        add_memory,      add_memory_atomics, add_buffer,        add_lds,
          add_lds_atomics,       add_scaled,      add_gfx950,         add_matrix_scaled}) {
      add(*made);
    }
    made->steering(true);
    for (auto add : {add_control, add_gws}) add(*made);
    made->steering(false);
    for (auto add : {add_float8, add_matrix, add_matrix_sparse}) add(*made, wanted);
    return made;
  };
  static const Table* const tables[] = {make(targets[0]), make(targets[1]), make(targets[2])};
  return *tables[static_cast<unsigned>(target)];
}

}  // namespace amd_gpu
