// All instructions. A new one is one line in the file of its subject; README.md says how.
#include <algorithm>

#include "instruction.h"

namespace amd_gpu {

const Table& Table::whole() {
  // Leaked: queues of a process that exits may still run.
  static const Table& table = *[] {
    auto* made = new Table;
    for (auto add : {add_scalar_arithmetic,
                     add_scalar_bits,
                     add_scalar_compare,
                     add_scalar_memory,
                     add_control,
                     add_vector_float,
                     add_vector_double,
                     add_vector_half,
                     add_vector_integer,
                     add_vector_bits,
                     add_carries,
                     add_division,
                     add_compare,
                     add_convert,
                     add_float8,
                     add_packed,
                     add_dot,
                     add_cross_lane,
                     add_matrix,
                     add_memory,
                     add_memory_atomics,
                     add_buffer,
                     add_lds,
                     add_lds_atomics}) {
      add(*made);
    }
    return made;
  }();
  return table;
}

std::vector<std::string> Table::mnemonics() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace amd_gpu
