// Injected failures: what goes wrong, and when.
#include <cstdlib>
#include <cstring>
#include <map>

#include "memory.h"

namespace rig {

namespace {

long long from_environment(const char* name, long long otherwise) {
  std::string full = std::string("KERNCAP_RIG_") + name;
  const char* text = std::getenv(full.c_str());
  return text && *text ? std::strtoll(text, nullptr, 0) : otherwise;
}

struct Knob {
  const char* name;
  std::atomic<long long> Faults::* field;
  long long otherwise;
};

const Knob kKnobs[] = {
    {"OOM_AFTER", &Faults::oom_after, -1},
    {"LAUNCH_ERROR_AT", &Faults::launch_error_at, -1},
    {"LAUNCH_ERROR", &Faults::launch_error, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {"FAULT_AT", &Faults::fault_at, -1},
    {"FAULT", &Faults::fault_error, CUDA_ERROR_ILLEGAL_ADDRESS},
    {"COPY_ERROR_AT", &Faults::copy_error_at, -1},
    {"COPY_ERROR", &Faults::copy_error, CUDA_ERROR_UNKNOWN},
    {"NO_JIT", &Faults::no_jit, 0},
    {"HELPER_ERROR", &Faults::helper_error, 0},
    {"NO_HELPERS", &Faults::no_helpers, 0},
    {"MPS", &Faults::mps, 0},
    {"PROCESSORS", &Faults::processors, 132},
    {"MEMORY", &Faults::device_bytes, 16ll << 30},
};

}  // namespace

Faults& faults() {
  static Faults* all = [] {
    auto* made = new Faults;
    for (const Knob& knob : kKnobs) (made->*knob.field) = from_environment(knob.name, knob.otherwise);
    return made;
  }();
  return *all;
}

CUresult injected_launch_error(bool helper) {
  Faults& f = faults();
  if (helper) return static_cast<CUresult>(f.helper_error.load());
  long long index = f.launches.fetch_add(1);
  return index == f.launch_error_at.load() ? static_cast<CUresult>(f.launch_error.load()) : CUDA_SUCCESS;
}

CUresult injected_copy_error() {
  Faults& f = faults();
  long long index = f.copies.fetch_add(1), at = f.copy_error_at.load();
  // From the one that was asked for on: a retry fails too.
  return at >= 0 && index >= at ? static_cast<CUresult>(f.copy_error.load()) : CUDA_SUCCESS;
}

}  // namespace rig

extern "C" __attribute__((visibility("default"))) int rig_control(const char* name, long long value) {
  for (const rig::Knob& knob : rig::kKnobs) {
    if (std::strcmp(knob.name, name) != 0) continue;
    (rig::faults().*knob.field) = value;
    return 0;
  }
  if (std::strcmp(name, "LAUNCH_ERROR_IN") == 0) {  // counted from now
    rig::faults().launch_error_at = rig::faults().launches + value;
    return 0;
  }
  if (std::strcmp(name, "FAULT_IN") == 0) {
    rig::faults().fault_at = rig::faults().kernels + value;
    return 0;
  }
  if (std::strcmp(name, "COPY_ERROR_IN") == 0) {
    rig::faults().copy_error_at = rig::faults().copies + value;
    return 0;
  }
  return -1;
}
