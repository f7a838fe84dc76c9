// How the HSA runtime lets this library in: it is named in HSA_TOOLS_LIB, or preloaded, and found there by
// the symbol HSA_AMD_TOOL_PRIORITY. Where both hold, the runtime calls OnLoad once or twice.
//
// ROCm 7's own tools come in through rocprofiler_configure instead; this library has no such entry.
#include <atomic>
#include <new>
#include <string>

#include "common/capture.h"
#include "common/memory_map.h"
#include "hip/agents.h"
#include "hip/copies.h"
#include "hip/device.h"
#include "hip/faults.h"
#include "hip/fork.h"
#include "hip/kernel_objects.h"
#include "hip/queues.h"
#include "hip/tables.h"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace kerncap::hip {
namespace {

// A runtime that starts anew in this process knows nothing of what an earlier one made.
void start_afresh() noexcept {
  forget_agents();
  forget_code();
  forget_queues();
  forget_faults();
  copies::reset();
  hip_device().forget();
  MemoryMap::reset_after_fork();
}

void refuse(const std::string& versions) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  capture::refuse_all("this HSA runtime has tables of a version that this kerncap does not know (" +
                      versions + "): nothing of it is watched");
}

bool load(ApiTable* tables) noexcept try {
  if (tables == nullptr || !capture::armed()) return true;
  std::string versions;
  Adoption adoption = adopt(tables, &versions);
  if (adoption == Adoption::refused) refuse(versions);
  if (adoption == Adoption::adopted) {
    start_afresh();
    watch_fork();
  }
  return true;
} catch (const std::bad_alloc&) {
  return true;
}

}  // namespace
}  // namespace kerncap::hip

// The higher, the later: who comes last stands before all others, and sees what the target calls.
extern "C" {
// `extern`: a constant with a name that others see, there before any code of ours runs.
__attribute__((visibility("default"))) extern const uint32_t HSA_AMD_TOOL_PRIORITY = 2000;
}

KERNCAP_EXPORT bool OnLoad(kerncap::hip::ApiTable* tables, uint64_t, uint64_t, const char* const*) {
  return kerncap::hip::load(tables);
}

KERNCAP_EXPORT void OnUnload() {
  // The runtime says on the target's stderr what was left.
  kerncap::hip::hip_device().dispose();
  kerncap::hip::dispose_signals();
  kerncap::hip::let_go();
}
