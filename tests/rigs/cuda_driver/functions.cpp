// Attributes of functions, occupancy, the linker.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "memory.h"

using namespace rig;

namespace {

CUresult attribute(int* value, CUfunction_attribute which, const KernelImage& image,
                   const std::map<int, int>& set) {
  auto found = set.find(which);
  if (found != set.end()) {
    *value = found->second;
    return CUDA_SUCCESS;
  }
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(image.shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(49152 - image.shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      break;
    default:
      *value = 0;
  }
  return which < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(Function* function, CUfunction_attribute which, int value) {
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
      (value < 0 || value + static_cast<int>(function->image->shared_bytes) > 232448))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  function->attributes[which] = value;
  return CUDA_SUCCESS;
}

// What was given to the linker; the last image comes back, nothing is linked.
struct Link {
  Magic magic = Magic::link;
  std::string image;
};

CUresult add_to(CUlinkState handle, const void* data, size_t size) {
  auto* link = as<Link>(handle, Magic::link);
  if (!link || !data) return CUDA_ERROR_INVALID_VALUE;
  link->image.assign(static_cast<const char*>(data), size);
  return CUDA_SUCCESS;
}

CUresult find(CUfunction handle, Function** function) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  *function = function_of(handle, context);
  return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

RIG_API cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction handle) {
  Function* function = nullptr;
  if (CUresult error = find(handle, &function)) return error;
  return attribute(value, which, *function->image, function->attributes);
}
RIG_API cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  Function* function = nullptr;
  if (CUresult error = find(handle, &function)) return error;
  return set_attribute(function, which, value);
}
RIG_API cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel handle, CUdevice) {
  return cuFuncGetAttribute(value, which, reinterpret_cast<CUfunction>(handle));
}
RIG_API cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel handle, CUdevice) {
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(handle), which, value);
}
RIG_API cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}
RIG_API cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) {
  return CUDA_SUCCESS;
}

RIG_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t) {
  if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  *blocks = std::max(1, std::min(32, 2048 / threads));
  return CUDA_SUCCESS;
}
RIG_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f, int threads,
                                                             size_t shared, unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
RIG_API cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t, int) {
  *grid = 264;
  *block = 1024;
  return CUDA_SUCCESS;
}
RIG_API cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = 16;
  return CUDA_SUCCESS;
}
RIG_API cuOccupancyMaxPotentialClusterSize(int* size, CUfunction, const CUlaunchConfig*) {
  *size = 8;
  return CUDA_SUCCESS;
}

RIG_API cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* out) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  *out = reinterpret_cast<CUlinkState>(new Link);
  return CUDA_SUCCESS;
}
RIG_API cuLinkAddData_v2(CUlinkState link, CUjitInputType, void* data, size_t size, const char*, unsigned,
                         CUjit_option*, void**) {
  return add_to(link, data, size);
}
RIG_API cuLinkAddFile_v2(CUlinkState link, CUjitInputType, const char* path, unsigned, CUjit_option*,
                         void**) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  return add_to(link, bytes.data(), bytes.size());
}
RIG_API cuLinkComplete(CUlinkState handle, void** image, size_t* size) {
  auto* link = as<Link>(handle, Magic::link);
  if (!link || link->image.empty()) return CUDA_ERROR_INVALID_VALUE;
  *image = link->image.data();
  *size = link->image.size();
  return CUDA_SUCCESS;
}
// The image belongs to the link state: gone with it, as with the real driver.
RIG_API cuLinkDestroy(CUlinkState handle) {
  auto* link = as<Link>(handle, Magic::link);
  if (!link) return CUDA_ERROR_INVALID_VALUE;
  std::fill(link->image.begin(), link->image.end(), '\0');
  std::string().swap(link->image);
  return CUDA_SUCCESS;
}
