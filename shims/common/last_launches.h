// The last launches of each thread, in a ring that costs a launch a few nanoseconds.
#ifndef KERNCAP_COMMON_LAST_LAUNCHES_H
#define KERNCAP_COMMON_LAST_LAUNCHES_H

#include <atomic>
#include <cstdint>

#include "common/json.h"
#include "common/launch.h"
#include "common/this_thread.h"

namespace kerncap::last_launches {

// The number of the launch that came last. Read and written apart, without a locked instruction: threads that
// launch at the same moment may take the same number; each thread's own go up.
extern std::atomic<uint64_t> newest;

inline void note(const Kernel& kernel, const Dim3& grid, const Dim3& block, void* stream) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed, release = std::memory_order_release;
  ThreadLine* line = own_line();
  if (line == nullptr) return;
  ThisThread& here = this_thread;
  const uint64_t last = newest.load(relaxed);
  const uint64_t number = (last > here.launch_number ? last : here.launch_number) + 1;
  newest.store(number, relaxed);
  here.launch_number = number;
  LaunchEntry& entry = line->launches[here.launches++ % ThreadLine::kept_launches];
  entry.number.store(0, relaxed);
  entry.kernel.store(&kernel, release);
  entry.stream.store(stream, release);
  entry.grid_xy.store(uint64_t{grid.x} << 32 | grid.y, release);
  entry.grid_z_block_x.store(uint64_t{grid.z} << 32 | block.x, release);
  entry.block_yz.store(uint64_t{block.y} << 32 | block.z, release);
  entry.number.store(number, release);
}

// The kernel that was launched last on a stream; null: none of late.
const Kernel* last_on(const void* stream) noexcept;
// The payload of LAST.
json::Writer describe(const std::string& error);
void reset() noexcept;

}  // namespace kerncap::last_launches

#endif  // KERNCAP_COMMON_LAST_LAUNCHES_H
