// Which of a job's processes this is, as its launcher says in the environment.
#ifndef KERNCAP_COMMON_RANK_H
#define KERNCAP_COMMON_RANK_H

#include <cstdint>

namespace kerncap {

struct Rank {
  int64_t global = -1, local = -1;  // -1: none
};

// Read anew at each call: workers that are spawned set their own variables before they launch.
Rank rank_here() noexcept;

}  // namespace kerncap

#endif  // KERNCAP_COMMON_RANK_H
