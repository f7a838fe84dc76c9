#include "arrays.h"

#include <algorithm>

namespace rig {

namespace {

struct Array {
  Magic magic = Magic::array;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  size_t row_bytes = 0;
  std::vector<uint8_t> bytes;
  bool gone = false;
};

struct Object {  // a texture or a surface
  Magic magic = Magic::object;
  CUDA_RESOURCE_DESC resource = {};
};

size_t element_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!out || !descriptor.Width) return CUDA_ERROR_INVALID_VALUE;
  auto* array = new Array;
  array->descriptor = descriptor;
  array->row_bytes = descriptor.Width * descriptor.NumChannels * element_bytes(descriptor.Format);
  size_t rows = std::max<size_t>(1, descriptor.Height) * std::max<size_t>(1, descriptor.Depth);
  array->bytes.assign(array->row_bytes * rows, 0xA5);
  *out = reinterpret_cast<CUarray>(array);
  return CUDA_SUCCESS;
}

}  // namespace

uint8_t* array_row(CUarray handle, size_t x, size_t y, size_t z, size_t width) {
  auto* array = as<Array>(handle, Magic::array);
  if (!array || array->gone || x + width > array->row_bytes) return nullptr;
  size_t row = z * std::max<size_t>(1, array->descriptor.Height) + y;
  size_t offset = row * array->row_bytes + x;
  return offset + width <= array->bytes.size() ? array->bytes.data() + offset : nullptr;
}

}  // namespace rig

using namespace rig;

RIG_API cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  return create(out, {d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}
RIG_API cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  return create(out, *d);
}
RIG_API cuArrayDestroy(CUarray handle) {
  auto* array = as<Array>(handle, Magic::array);
  if (!array || array->gone) return CUDA_ERROR_INVALID_HANDLE;
  array->gone = true;
  return CUDA_SUCCESS;
}
RIG_API cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* d, CUarray handle) {
  auto* array = as<Array>(handle, Magic::array);
  if (!array || array->gone) return CUDA_ERROR_INVALID_HANDLE;
  *d = array->descriptor;
  return CUDA_SUCCESS;
}
RIG_API cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC*,
                          const CUDA_RESOURCE_VIEW_DESC*) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  auto* object = new Object;
  object->resource = *resource;
  *out = reinterpret_cast<CUtexObject>(object);
  return CUDA_SUCCESS;
}
RIG_API cuTexObjectDestroy(CUtexObject) {
  return CUDA_SUCCESS;
}
RIG_API cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  auto* object = as<Object>(reinterpret_cast<void*>(handle), Magic::object);
  if (!object) return CUDA_ERROR_INVALID_HANDLE;
  *out = object->resource;
  return CUDA_SUCCESS;
}
RIG_API cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  return cuTexObjectCreate(reinterpret_cast<CUtexObject*>(out), resource, nullptr, nullptr);
}
RIG_API cuSurfObjectDestroy(CUsurfObject) {
  return CUDA_SUCCESS;
}
