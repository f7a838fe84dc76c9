// The last launches of this process, in a ring that costs a launch a few nanoseconds.
#ifndef KERNCAP_COMMON_LAST_LAUNCHES_H
#define KERNCAP_COMMON_LAST_LAUNCHES_H

#include <atomic>
#include <cstdint>

#include "common/json.h"
#include "common/launch.h"

namespace kerncap::last_launches {

constexpr uint64_t kept = 64;

// Every field is atomic: a reader may meet a writer. `number` is written first as "being written" and
// last as the launch's own, so that a torn entry is left out.
struct Entry {
  std::atomic<uint64_t> number{0};
  std::atomic<const Kernel*> kernel{nullptr};
  std::atomic<void*> stream{nullptr};
  std::atomic<uint64_t> grid_xy{0}, grid_z_block_x{0}, block_yz{0};
};

struct Ring {
  std::atomic<uint64_t> next{0};
  Entry entries[kept];
};

extern Ring ring;

inline void note(const Kernel& kernel, const Dim3& grid, const Dim3& block, void* stream) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  uint64_t number = ring.next.fetch_add(1, relaxed);
  Entry& entry = ring.entries[number % kept];
  entry.number.store(UINT64_MAX, std::memory_order_release);
  entry.kernel.store(&kernel, relaxed);
  entry.stream.store(stream, relaxed);
  entry.grid_xy.store(uint64_t{grid.x} << 32 | grid.y, relaxed);
  entry.grid_z_block_x.store(uint64_t{grid.z} << 32 | block.x, relaxed);
  entry.block_yz.store(uint64_t{block.y} << 32 | block.z, relaxed);
  entry.number.store(number + 1, std::memory_order_release);
}

// The kernel that was launched last on a stream; null: none of late.
const Kernel* last_on(const void* stream) noexcept;
// The payload of LAST.
json::Writer describe(const std::string& error);
void reset() noexcept;

}  // namespace kerncap::last_launches

#endif  // KERNCAP_COMMON_LAST_LAUNCHES_H
