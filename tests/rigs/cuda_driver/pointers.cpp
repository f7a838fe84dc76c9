// What the driver knows of an address.
#include <cstring>

#include "memory.h"

using namespace rig;

namespace {

template <class T>
CUresult give(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult attribute_of(void* out, CUpointer_attribute attribute, CUdeviceptr address, const Allocation& a) {
  bool managed = a.kind == Kind::managed;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(out, a.kind == Kind::mapped || a.kind == Kind::pooled ? nullptr : a.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give<unsigned>(out, a.is_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return a.is_host() || managed ? give(out, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give<int>(out, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give(out, a.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give<int>(out, managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(out, a.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give<int>(out, a.kind == Kind::device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give(out, a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give(out, a.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give<int>(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give<unsigned long long>(out, a.kind == Kind::mapped ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give<int>(out, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give<int>(out, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(out, a.pool);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

RIG_API cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  if (CUresult error = enter_without_context()) return error;
  Allocation found;
  if (!out || !Memory::instance().find(address, &found)) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(out, attribute, address, found);
}

// Unlike the single one it succeeds for an address that nobody knows, with zeros.
RIG_API cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** out,
                               CUdeviceptr address) {
  if (CUresult error = enter_without_context()) return error;
  Allocation found;
  bool known = Memory::instance().find(address, &found);
  for (unsigned i = 0; i < count; ++i) {
    if (known && attribute_of(out[i], attributes[i], address, found) == CUDA_SUCCESS) continue;
    std::memset(out[i], 0, attribute_bytes(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && !known) give<int>(out[i], -2);
  }
  return CUDA_SUCCESS;
}

RIG_API cuPointerSetAttribute(const void*, CUpointer_attribute, CUdeviceptr address) {
  return Memory::instance().find(address, nullptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RIG_API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  if (CUresult error = enter_without_context()) return error;
  Allocation found;
  if (!Memory::instance().find(address, &found) || found.is_hidden) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = found.base;
  if (size) *size = found.size;
  return CUDA_SUCCESS;
}
