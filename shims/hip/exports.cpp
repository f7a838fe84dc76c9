// What the Triton hook calls in a process that this shim is live in (docs/session.md).
#include <cstring>

#include "common/capture.h"
#include "hip/tables.h"

#define KERNCAP_FUNCTION(name, result, parameters) \
  extern "C" __attribute__((visibility("default"))) result kerncap_hip_##name parameters;
#define KERNCAP_CUDA_FUNCTION(name, result, parameters)
#include "contract/functions.def"
#undef KERNCAP_FUNCTION
#undef KERNCAP_CUDA_FUNCTION

using namespace kerncap;

// Preloaded where no runtime ever lets it in, it would hold nothing: then it is not live.
int kerncap_hip_live(void) {
  return hip::hsa() != nullptr && capture::armed() ? 1 : 0;
}

void kerncap_hip_own(const char* kernel_name) {
  capture::own(kernel_name);
}

void kerncap_hip_choose(const char* kernel_name, unsigned long long token, const char* annotation) {
  capture::choose(kernel_name, token, annotation);
}

void kerncap_hip_choose_types(unsigned long long token, const char* types) {
  capture::choose_types(token, types);
}

void kerncap_hip_config(const char* text) {
  capture::name_config(text);
}

long kerncap_hip_count_launch(int starts, int ends, unsigned long long occurrence) {
  return capture::count_launch(starts != 0, ends != 0, occurrence);
}

int kerncap_hip_range_counted(void) {
  return capture::is_range_counted() ? 1 : 0;
}

int kerncap_hip_disarmed(void) {
  return capture::is_disarmed() ? 1 : 0;
}

int kerncap_hip_outcome(unsigned long long token, char* reason, unsigned long size) {
  std::string text;
  auto fate = capture::outcome(token, &text);
  if (reason != nullptr && size > 0) {
    size_t length = text.size() < size ? text.size() : size - 1;
    std::memcpy(reason, text.data(), length);
    reason[length] = '\0';
  }
  return static_cast<int>(fate);
}
