// What the Triton hook calls in a process that this shim is live in (docs/session.md).
#include <cstring>

#include "common/capture.h"
#include "cuda/torch_mirror.h"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

using namespace kerncap;

KERNCAP_EXPORT int kerncap_cuda_live(void) {
  return capture::armed() ? 1 : 0;
}

KERNCAP_EXPORT void kerncap_cuda_own(const char* kernel_name) {
  capture::own(kernel_name);
}

KERNCAP_EXPORT void kerncap_cuda_choose(const char* kernel_name, unsigned long long token,
                                        const char* annotation) {
  capture::choose(kernel_name, token, annotation);
}

KERNCAP_EXPORT void kerncap_cuda_choose_in_graph(const char* kernel_name, unsigned long long token,
                                                 const char* annotation) {
  capture::choose_in_graph(kernel_name, token, annotation);
}

KERNCAP_EXPORT void kerncap_cuda_choose_types(unsigned long long token, const char* types) {
  capture::choose_types(token, types);
}

KERNCAP_EXPORT void kerncap_cuda_config(const char* text) {
  capture::name_config(text);
}

KERNCAP_EXPORT long kerncap_cuda_range(char* text, unsigned long size) {
  return capture::ranges_text(text, size);
}

KERNCAP_EXPORT int kerncap_cuda_disarmed(void) {
  return capture::is_disarmed() ? 1 : 0;
}

KERNCAP_EXPORT int kerncap_cuda_outcome(unsigned long long token, char* reason, unsigned long size) {
  std::string text;
  auto fate = capture::outcome(token, &text);
  // Blocks that were offered for a launch that never came are no other launch's.
  cuda::torch_mirror::offer(nullptr, 0);
  if (reason != nullptr && size > 0) {
    size_t length = text.size() < size ? text.size() : size - 1;
    std::memcpy(reason, text.data(), length);
    reason[length] = '\0';
  }
  return static_cast<int>(fate);
}

KERNCAP_EXPORT unsigned long long kerncap_cuda_mirror_wait(void) {
  return cuda::torch_mirror::wait();
}

KERNCAP_EXPORT void kerncap_cuda_mirror_answer(unsigned long long request, const unsigned long long* triples,
                                               long count) {
  cuda::torch_mirror::answer(request, triples, count);
}

KERNCAP_EXPORT void kerncap_cuda_mirror_offer(const unsigned long long* triples, long count) {
  cuda::torch_mirror::offer(triples, count);
}
