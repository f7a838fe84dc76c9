// FLAT and GLOBAL: atomics.
// Source: AMD Instinct MI300 ISA, "Flat Memory Instructions".
#include "memory_atomics.h"

#include "flat_path.h"

namespace amd_gpu {
namespace {

// result (where it is returned), address, data, scalar base.
template <Space space>
class AtomicPath : public FlatPath<space> {
 public:
  using FlatPath<space>::FlatPath;
  static AtomicOperands atomic_operands(const Instruction& in) {
    return in.returns ? AtomicOperands{0, 2, 1} : AtomicOperands{0, 1, 0};
  }
};

}  // namespace

void add_memory_atomics(Table& table) {
  add_atomics<AtomicPath<Space::flat>>(table, "flat_atomic_");
  add_atomics<AtomicPath<Space::global>>(table, "global_atomic_");
}

}  // namespace amd_gpu
