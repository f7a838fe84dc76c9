// A launch's parameters, gathered into one buffer from either form in which the driver takes them.
#ifndef KERNCAP_CUDA_PARAMETERS_H
#define KERNCAP_CUDA_PARAMETERS_H

#include <cstdint>
#include <vector>

#include "common/launch.h"

namespace kerncap::cuda {

// `pointers`: one for each parameter (kernelParams); `extra`: the packed buffer and its size. Null: the
// buffer is filled; else why it can't be.
const char* read_parameters(const Kernel& kernel, void* const* pointers, void* const* extra,
                            std::vector<uint8_t>* buffer);

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_PARAMETERS_H
