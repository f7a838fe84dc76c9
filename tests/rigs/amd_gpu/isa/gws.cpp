// ds_gws_init and ds_gws_barrier: waves of a whole grid wait for each other at a counter of the GPU's.
// Source: AMD Instinct MI200 ISA, "LDS and GDS Instructions": DS_GWS_INIT, DS_GWS_BARRIER.
#include <array>
#include <mutex>

#include "access.h"

namespace amd_gpu {
namespace {

struct Resource {
  u32 waves = 0;  // that a barrier waits for; 0 before ds_gws_init
  u32 arrived = 0;
  u64 passed = 0;  // barriers that are over
};

// Of the process, since a kernel of the runtime's sets the counter for the one that follows it.
std::mutex mutex;
std::array<Resource, 64> resources;

Resource& resource_of(const Wave& wave, const Instruction& in) {
  return resources[((wave.scalar[m0] >> 16 & 63) + static_cast<u32>(in.offset)) & 63];
}

// What the first active lane passes: one less than the waves.
u32 waves_of(const Wave& wave, const Instruction& in) {
  return wave.vector[in.operand(0).index][std::countr_zero(wave.exec()) & 63] + 1;
}

void init(Wave& wave, const Instruction& in) {
  const std::lock_guard<std::mutex> guard(mutex);
  resource_of(wave, in) = {.waves = waves_of(wave, in)};
}

void barrier(Wave& wave, const Instruction& in) {
  const std::lock_guard<std::mutex> guard(mutex);
  Resource& resource = resource_of(wave, in);
  if (!resource.waves) throw Stop{FaultKind::unsupported, "ds_gws_barrier without ds_gws_init"};
  if (!wave.waits_for_pass) {
    wave.waits_for_pass = resource.passed + 1;
    if (++resource.arrived == resource.waves) {
      resource = {.waves = waves_of(wave, in), .passed = resource.passed + 1};
    }
  }
  if (resource.passed >= wave.waits_for_pass) {
    wave.waits_for_pass = 0;
    return;
  }
  wave.pc = in.after - in.size_bytes;  // again in its next turn
  wave.pause = true;
}

}  // namespace

void add_gws(Table& t) {
  t.add("ds_gws_init", init);
  t.add("ds_gws_barrier", barrier);
}

}  // namespace amd_gpu
