// Textures and surfaces as the driver describes them, and copies of the arrays behind them.
#include <algorithm>
#include <cstring>

#include "cuda/device.h"
#include "cuda/registry_textures.h"

namespace kerncap::cuda {
namespace {

// Sparse arrays, those that are mapped later, and video's have no plain copy.
constexpr unsigned known_flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                                 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
                                 CUDA_ARRAY3D_COLOR_ATTACHMENT;

// Bytes of one channel; 0 for a format of several planes or of compressed blocks.
uint64_t channel_bytes(unsigned format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      break;
  }
  if (format >= CU_AD_FORMAT_UNORM_INT8X1 && format <= CU_AD_FORMAT_SNORM_INT16X4)
    return (format - CU_AD_FORMAT_UNORM_INT8X1) / 3 % 2 == 0 ? 1 : 2;
  return 0;
}

// An array's levels: of one that is not mipmapped the array itself.
struct Levels {
  std::vector<CUarray> arrays;
  std::vector<CUDA_ARRAY3D_DESCRIPTOR> shapes;

  uint64_t row_bytes(size_t i) const {
    return shapes[i].Width * shapes[i].NumChannels * channel_bytes(shapes[i].Format);
  }
  uint64_t rows(size_t i) const { return std::max<uint64_t>(1, shapes[i].Height); }
  uint64_t layers(size_t i) const { return std::max<uint64_t>(1, shapes[i].Depth); }
  uint64_t bytes(size_t i) const { return row_bytes(i) * rows(i) * layers(i); }
};

bool read_levels(uint64_t handle, Levels* levels) {
  const Driver& d = *driver();
  if (d.cuArray3DGetDescriptor_v2 == nullptr) return false;
  auto whole = reinterpret_cast<CUmipmappedArray>(handle);
  unsigned count = levels_of(whole);
  for (unsigned i = 0; i < std::max(1U, count); ++i) {
    auto array = reinterpret_cast<CUarray>(handle);
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (count > 0 && d.cuMipmappedArrayGetLevel(&array, whole, i) != CUDA_SUCCESS) return false;
    if (d.cuArray3DGetDescriptor_v2(&shape, array) != CUDA_SUCCESS) return false;
    levels->arrays.push_back(array);
    levels->shapes.push_back(shape);
  }
  return true;
}

void describe_array(uint64_t handle, TextureObject* object) {
  Levels levels;
  if (!read_levels(handle, &levels)) {
    object->problem = "the driver does not describe its array";
    return;
  }
  const CUDA_ARRAY3D_DESCRIPTOR& first = levels.shapes[0];
  object->array = handle;
  ArrayShape& shape = object->shape;
  shape = {first.Width,
           first.Height,
           first.Depth,
           static_cast<uint32_t>(first.Format),
           first.NumChannels,
           first.Flags,
           static_cast<uint32_t>(levels.arrays.size()),
           0};
  for (size_t i = 0; i < levels.arrays.size(); ++i) shape.size += levels.bytes(i);
  if (channel_bytes(first.Format) == 0)
    object->problem = "its array has format " + std::to_string(shape.format);
  else if ((first.Flags & ~known_flags) != 0)
    object->problem = "its array has flags " + std::to_string(shape.flags);
}

void describe_resource(const CUDA_RESOURCE_DESC& resource, TextureObject* object) {
  CUmipmappedArray whole = nullptr;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      object->resource = word::texture_resource::array;
      if (find_level(resource.res.array.hArray, &whole, &object->level))
        describe_array(reinterpret_cast<uintptr_t>(whole), object);
      else
        describe_array(reinterpret_cast<uintptr_t>(resource.res.array.hArray), object);
      return;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      object->resource = word::texture_resource::mipmap;
      whole = resource.res.mipmap.hMipmappedArray;
      if (levels_of(whole) == 0)
        object->problem = "its mipmapped array was not seen when it was made";
      else
        describe_array(reinterpret_cast<uintptr_t>(whole), object);
      return;
    case CU_RESOURCE_TYPE_LINEAR:
      object->resource = word::texture_resource::linear;
      object->address = resource.res.linear.devPtr;
      object->format = static_cast<uint32_t>(resource.res.linear.format);
      object->channels = resource.res.linear.numChannels;
      object->width = resource.res.linear.sizeInBytes;
      return;
    case CU_RESOURCE_TYPE_PITCH2D:
      object->resource = word::texture_resource::pitch2d;
      object->address = resource.res.pitch2D.devPtr;
      object->format = static_cast<uint32_t>(resource.res.pitch2D.format);
      object->channels = resource.res.pitch2D.numChannels;
      object->width = resource.res.pitch2D.width;
      object->height = resource.res.pitch2D.height;
      object->pitch = resource.res.pitch2D.pitchInBytes;
      return;
    default:
      object->problem = "its resource is of kind " + std::to_string(static_cast<int>(resource.resType));
  }
}

template <typename T>
std::vector<uint8_t> bytes_of(const T& value) {
  auto* first = reinterpret_cast<const uint8_t*>(&value);
  return {first, first + sizeof value};
}

TextureObject describe_object(const LiveTexture& live) {
  const Driver& d = *driver();
  TextureObject object;
  object.handle = live.handle;
  object.kind = live.is_surface ? word::texture_kind::surface : word::texture_kind::texture;
  object.resource = word::texture_resource::array;
  auto ask = live.is_surface ? d.cuSurfObjectGetResourceDesc : d.cuTexObjectGetResourceDesc;
  CUDA_RESOURCE_DESC resource{};
  if (ask == nullptr || ask(&resource, live.handle) != CUDA_SUCCESS) {
    object.problem = "the driver does not describe it";
    return object;
  }
  describe_resource(resource, &object);
  if (live.is_surface) return object;
  CUDA_TEXTURE_DESC sampler{};
  CUDA_RESOURCE_VIEW_DESC view{};
  if (d.cuTexObjectGetTextureDesc(&sampler, live.handle) == CUDA_SUCCESS)
    object.sampler = bytes_of(sampler);
  else
    object.problem = "the driver does not say how it samples";
  // An error if it was made without one.
  if (d.cuTexObjectGetResourceViewDesc(&view, live.handle) == CUDA_SUCCESS &&
      (view.width != 0 || view.format != CU_RES_VIEW_FORMAT_NONE))
    object.view = bytes_of(view);
  return object;
}

}  // namespace

std::vector<TextureObject> CudaDevice::textures() {
  std::vector<TextureObject> all;
  for (const LiveTexture& live : textures_of(launch_context_)) all.push_back(describe_object(live));
  return all;
}

bool CudaDevice::copy_array(int device, uint64_t array, uint64_t memory, bool to_memory) {
  Lane* own = lane(device);
  if (own == nullptr) return false;
  InContext in(own->context);
  Levels levels;
  if (!read_levels(array, &levels)) return good(CUDA_ERROR_INVALID_HANDLE);
  own->copying = true;
  for (size_t i = 0; i < levels.arrays.size(); ++i) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = to_memory ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = to_memory ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_ARRAY;
    (to_memory ? copy.srcArray : copy.dstArray) = levels.arrays[i];
    (to_memory ? copy.dstDevice : copy.srcDevice) = memory;
    (to_memory ? copy.dstPitch : copy.srcPitch) = levels.row_bytes(i);
    (to_memory ? copy.dstHeight : copy.srcHeight) = levels.rows(i);
    copy.WidthInBytes = levels.row_bytes(i);
    copy.Height = levels.rows(i);
    copy.Depth = levels.layers(i);
    if (!good(driver()->cuMemcpy3DAsync_v2(&copy, own->stream))) return false;
    memory += levels.bytes(i);
  }
  return true;
}

}  // namespace kerncap::cuda
