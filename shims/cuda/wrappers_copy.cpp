// Copies, fills and prefetches: they wait while the gate is closed, and nothing else.
//
// A blocking copy keeps its thread inside; who closes the gate waits for it with a deadline.
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/interpose.h"

namespace kerncap::cuda {

#define KERNCAP_HOOK(symbol, result, parameters, arguments)
#define KERNCAP_GATED(symbol, parameters, arguments) \
  CUresult wrap::symbol parameters noexcept {        \
    gate::Pass pass;                                 \
    return driver()->symbol arguments;               \
  }
#include "cuda/hooks.def"

}  // namespace kerncap::cuda
