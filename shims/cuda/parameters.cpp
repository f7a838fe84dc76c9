#include "cuda/parameters.h"

#include <algorithm>
#include <cstring>

#include "cuda/cuda_api.h"

namespace kerncap::cuda {
namespace {

constexpr size_t extra_limit = 16;         // entries; a list without an end is the target's own fault
constexpr size_t packed_limit = 1U << 20;  // far more than the 32,764 bytes of today's devices

// Source: cuda.h, cuLaunchKernel: pairs of a tag and a value up to CU_LAUNCH_PARAM_END.
const char* read_packed(const Kernel& kernel, void* const* extra, std::vector<uint8_t>* buffer) {
  const void* bytes = nullptr;
  const size_t* size = nullptr;
  for (size_t i = 0; i < extra_limit && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) bytes = extra[i + 1];
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = static_cast<const size_t*>(extra[i + 1]);
  }
  if (size == nullptr || (bytes == nullptr && *size != 0))
    return "its parameter buffer has no address or no size";
  if (*size > packed_limit) return "its parameter buffer is larger than any kernel takes";
  // The driver takes as much as the kernel needs; a buffer may be longer by its padding.
  buffer->assign(std::max<size_t>(*size, kernel.parameter_bytes), 0);
  if (*size != 0) std::memcpy(buffer->data(), bytes, *size);
  if (kernel.layout_known) buffer->resize(kernel.parameter_bytes);
  return nullptr;
}

}  // namespace

const char* read_parameters(const Kernel& kernel, void* const* pointers, void* const* extra,
                            std::vector<uint8_t>* buffer) {
  if (pointers == nullptr && extra != nullptr) return read_packed(kernel, extra, buffer);
  if (!kernel.layout_known)
    return "the sizes of its parameters are not known: the driver is older than CUDA 12.4 and its image is "
           "no "
           "plain cubin";
  buffer->assign(kernel.parameter_bytes, 0);
  if (kernel.layout.empty()) return nullptr;
  if (pointers == nullptr) return "it was launched with no parameters, and takes some";
  for (size_t i = 0; i < kernel.layout.size(); ++i) {
    if (pointers[i] == nullptr) return "one of its parameters was given as a null pointer";
    std::memcpy(buffer->data() + kernel.layout[i].offset, pointers[i], kernel.layout[i].size);
  }
  return nullptr;
}

}  // namespace kerncap::cuda
