// What the Triton hook calls in a process that this shim is live in (docs/session.md).
#include <cstring>

#include "common/capture.h"
#include "cuda/run_lookup.h"
#include "cuda/torch_mirror.h"

#define KERNCAP_FUNCTION(name, result, parameters) \
  extern "C" __attribute__((visibility("default"))) result kerncap_cuda_##name parameters;
#define KERNCAP_CUDA_FUNCTION KERNCAP_FUNCTION
#include "contract/functions.def"
#undef KERNCAP_FUNCTION
#undef KERNCAP_CUDA_FUNCTION

using namespace kerncap;

int kerncap_cuda_live(void) {
  return capture::armed() ? 1 : 0;
}

void kerncap_cuda_own(const char* kernel_name) {
  capture::own(kernel_name);
}

void kerncap_cuda_choose(const char* kernel_name, unsigned long long token, const char* annotation) {
  capture::choose(kernel_name, token, annotation);
}

void kerncap_cuda_choose_in_graph(const char* kernel_name, unsigned long long token, const char* annotation) {
  capture::choose_in_graph(kernel_name, token, annotation);
}

void kerncap_cuda_choose_types(unsigned long long token, const char* types) {
  capture::choose_types(token, types);
}

void kerncap_cuda_config(const char* text) {
  capture::name_config(text);
}

long kerncap_cuda_range(char* text, unsigned long size) {
  return capture::ranges_text(text, size);
}

long kerncap_cuda_count_launch(int starts, int ends, unsigned long long occurrence) {
  return capture::count_launch(starts != 0, ends != 0, occurrence);
}

int kerncap_cuda_range_counted(void) {
  return capture::is_range_counted() ? 1 : 0;
}

int kerncap_cuda_disarmed(void) {
  return capture::is_disarmed() ? 1 : 0;
}

int kerncap_cuda_outcome(unsigned long long token, char* reason, unsigned long size) {
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

int kerncap_cuda_digests(int device, const unsigned long long* pairs, long count, char* text) {
  return capture::digests(device, pairs, count, text) ? 1 : 0;
}

unsigned long long kerncap_cuda_mirror_wait(void) {
  return cuda::torch_mirror::wait();
}

void kerncap_cuda_mirror_answer(unsigned long long request, const unsigned long long* triples, long count) {
  cuda::torch_mirror::answer(request, triples, count);
}

void kerncap_cuda_mirror_offer(const unsigned long long* triples, long count) {
  cuda::torch_mirror::offer(triples, count);
}

int kerncap_cuda_run_add(void* descriptor, void* original, void* watched) {
  return cuda::run_lookup::add(descriptor, original, watched) ? 1 : 0;
}

void kerncap_cuda_run_count(void* kernel, long long* left) {
  cuda::run_lookup::count(kernel, left);
}

void* kerncap_cuda_run_get(void* descriptor, void* kernel, void*) {
  return cuda::run_lookup::get(descriptor, kernel);
}
