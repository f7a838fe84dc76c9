#include "common/rank.h"

#include <cstdlib>

#include "common/text.h"

namespace kerncap {
namespace {

// The first of the variables that holds a number from 0; torchrun, Open MPI, MPICH, Slurm.
template <size_t count>
int64_t first_number(const char* const (&names)[count]) noexcept {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    uint64_t value = 0;
    if (text != nullptr && parse_u64(text, &value) && value <= INT32_MAX) return static_cast<int64_t>(value);
  }
  return -1;
}

}  // namespace

Rank rank_here() noexcept {
  static constexpr const char* global[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  static constexpr const char* local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                          "SLURM_LOCALID"};
  return {first_number(global), first_number(local)};
}

}  // namespace kerncap
