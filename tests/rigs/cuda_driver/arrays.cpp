#include "arrays.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace rig {

namespace {

struct Array {
  Magic magic = Magic::array;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  size_t row_bytes = 0;
  std::vector<uint8_t> bytes;
  bool gone = false;
};

struct Mipmapped {
  Magic magic = Magic::mipmapped;
  std::vector<CUarray> levels;
  bool gone = false;
};

struct Object {  // a texture or a surface
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC sampler = {};
  CUDA_RESOURCE_VIEW_DESC view = {};
  bool has_view = false, alive = false;
};

// Textures and surfaces have numbers of their own, and the least that is free comes next.
const unsigned long long first_number =
    std::getenv("KERNCAP_RIG_FIRST_OBJECT") != nullptr
        ? std::strtoull(std::getenv("KERNCAP_RIG_FIRST_OBJECT"), nullptr, 10)
        : 1;
struct Objects {
  std::mutex mutex;
  std::vector<Object> textures, surfaces;
};

Objects& objects() {
  static auto* all = new Objects;
  return *all;
}

unsigned long long add_object(std::vector<Object>& all, const Object& object) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  size_t at = 0;
  while (at < all.size() && all[at].alive) ++at;
  if (at == all.size()) all.emplace_back();
  all[at] = object;
  all[at].alive = true;
  return at + first_number;
}

bool find_object(const std::vector<Object>& all, unsigned long long handle, Object* found) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  size_t at = handle - first_number;
  if (at >= all.size() || !all[at].alive) return false;
  *found = all[at];
  return true;
}

CUresult remove_object(std::vector<Object>& all, unsigned long long handle) {
  std::lock_guard<std::mutex> lock(objects().mutex);
  size_t at = handle - first_number;
  if (at >= all.size() || !all[at].alive) return CUDA_ERROR_INVALID_VALUE;
  all[at].alive = false;
  return CUDA_SUCCESS;
}

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
RIG_API cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned levels) {
  if (!out || !d || !levels) return CUDA_ERROR_INVALID_VALUE;
  auto* whole = new Mipmapped;
  for (unsigned level = 0; level < levels; ++level) {
    CUDA_ARRAY3D_DESCRIPTOR shape = *d;
    bool layered = (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    shape.Width = std::max<size_t>(1, d->Width >> level);
    if (d->Height) shape.Height = std::max<size_t>(1, d->Height >> level);
    if (d->Depth && !layered) shape.Depth = std::max<size_t>(1, d->Depth >> level);
    CUarray array;
    if (CUresult error = create(&array, shape)) return error;
    whole->levels.push_back(array);
  }
  *out = reinterpret_cast<CUmipmappedArray>(whole);
  return CUDA_SUCCESS;
}
RIG_API cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned level) {
  auto* whole = as<Mipmapped>(handle, Magic::mipmapped);
  if (!whole || whole->gone || level >= whole->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = whole->levels[level];
  return CUDA_SUCCESS;
}
RIG_API cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  auto* whole = as<Mipmapped>(handle, Magic::mipmapped);
  if (!whole || whole->gone) return CUDA_ERROR_INVALID_HANDLE;
  whole->gone = true;
  return CUDA_SUCCESS;
}

RIG_API cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                          const CUDA_TEXTURE_DESC* sampler, const CUDA_RESOURCE_VIEW_DESC* view) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!out || !resource || !sampler) return CUDA_ERROR_INVALID_VALUE;
  Object object;
  object.resource = *resource;
  object.sampler = *sampler;
  object.has_view = view != nullptr;
  if (view) object.view = *view;
  *out = add_object(objects().textures, object);
  return CUDA_SUCCESS;
}
RIG_API cuTexObjectDestroy(CUtexObject handle) {
  return remove_object(objects().textures, handle);
}
RIG_API cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  Object object;
  if (!find_object(objects().textures, handle, &object)) return CUDA_ERROR_INVALID_VALUE;
  *out = object.resource;
  return CUDA_SUCCESS;
}
RIG_API cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  Object object;
  if (!find_object(objects().textures, handle, &object)) return CUDA_ERROR_INVALID_VALUE;
  *out = object.sampler;
  return CUDA_SUCCESS;
}
RIG_API cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  Object object;
  if (!find_object(objects().textures, handle, &object) || !object.has_view) return CUDA_ERROR_INVALID_VALUE;
  *out = object.view;
  return CUDA_SUCCESS;
}
RIG_API cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!out || !resource || resource->resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
  Object object;
  object.resource = *resource;
  *out = add_object(objects().surfaces, object);
  return CUDA_SUCCESS;
}
RIG_API cuSurfObjectDestroy(CUsurfObject handle) {
  return remove_object(objects().surfaces, handle);
}
RIG_API cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  Object object;
  if (!find_object(objects().surfaces, handle, &object)) return CUDA_ERROR_INVALID_VALUE;
  *out = object.resource;
  return CUDA_SUCCESS;
}

// Where a kernel finds an element, without filtering.
extern "C" __attribute__((visibility("default"))) void* rig_texel(uint64_t handle, int is_surface, size_t x,
                                                                  size_t y, size_t z, unsigned level,
                                                                  size_t bytes) {
  Object object;
  void* found = nullptr;
  if (find_object(is_surface ? objects().surfaces : objects().textures, handle, &object)) {
    const auto& res = object.resource.res;
    switch (object.resource.resType) {
      case CU_RESOURCE_TYPE_LINEAR:
        return rig_span(res.linear.devPtr + x * bytes, bytes);
      case CU_RESOURCE_TYPE_PITCH2D:
        return rig_span(res.pitch2D.devPtr + y * res.pitch2D.pitchInBytes + x * bytes, bytes);
      case CU_RESOURCE_TYPE_ARRAY:
        found = array_row(res.array.hArray, x * bytes, y, z, bytes);
        break;
      default:
        if (auto* whole = as<Mipmapped>(res.mipmap.hMipmappedArray, Magic::mipmapped))
          if (level < whole->levels.size()) found = array_row(whole->levels[level], x * bytes, y, z, bytes);
    }
  }
  if (!found) rig_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  return found;
}
