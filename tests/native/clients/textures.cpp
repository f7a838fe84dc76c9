// Textures and surfaces over every kind of resource, and each way in which a kernel is given them.
#include <algorithm>
#include <string>

#include "client.h"

namespace {

constexpr unsigned width = 16, height = 8, depth = 6, levels = 3;

struct Texels {
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  CUdeviceptr out = 0;
  int width = 1, height = 1, depth = 1, levels = 1;

  size_t count() const {
    size_t all = 0;
    for (int level = 0; level < levels; ++level)
      all += static_cast<size_t>(std::max(1, width >> level) * std::max(1, height >> level) * depth);
    return all;
  }
};

void fill(CUarray array, size_t x, size_t y, size_t z, float first) {
  std::vector<float> values = ramp(x * y * z, 0.5f);
  for (float& value : values) value += first;
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = values.data();
  copy.srcPitch = x * 4;
  copy.srcHeight = y;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = x * 4;
  copy.Height = y;
  copy.Depth = z;
  CHECK(cuMemcpy3D(&copy));
}

void show(CUarray array, const Texels& given) {
  std::vector<float> values(static_cast<size_t>(given.width * given.height * given.depth));
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = values.data();
  copy.dstPitch = static_cast<size_t>(given.width) * 4;
  copy.dstHeight = static_cast<size_t>(given.height);
  copy.WidthInBytes = copy.dstPitch;
  copy.Height = copy.dstHeight;
  copy.Depth = static_cast<size_t>(given.depth);
  CHECK(cuMemcpy3D(&copy));
  report("surface", values);
}

CUtexObject texture_on(const CUDA_RESOURCE_DESC& resource, CUfilter_mode filter = CU_TR_FILTER_MODE_POINT) {
  CUDA_TEXTURE_DESC sampler = {};
  for (CUaddress_mode& mode : sampler.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  sampler.filterMode = filter;
  CUtexObject object;
  CHECK(cuTexObjectCreate(&object, &resource, &sampler, nullptr));
  return object;
}

CUarray array_of(unsigned y, unsigned z, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {width, y, z, CU_AD_FORMAT_FLOAT, 1, flags};
  CUarray array;
  CHECK(cuArray3DCreate(&array, &shape));
  fill(array, width, std::max(1u, y), std::max(1u, z), 1);
  return array;
}

CUDA_RESOURCE_DESC on_array(CUarray array) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

void give(Texels* given, unsigned y, unsigned z) {
  given->width = width;
  given->height = static_cast<int>(std::max(1u, y));
  given->depth = static_cast<int>(std::max(1u, z));
}

// A texture on one array, and a surface on another of the same shape that comes out written.
CUarray on_arrays(Texels* given, unsigned y, unsigned z, unsigned flags) {
  CUarray out = array_of(y, z, flags | CUDA_ARRAY3D_SURFACE_LDST);
  CUDA_RESOURCE_DESC resource = on_array(out);
  given->texture = texture_on(on_array(array_of(y, z, flags)));
  CHECK(cuSurfObjectCreate(&given->surface, &resource));
  give(given, y, z);
  return out;
}

CUarray mipmapped(Texels* given) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {width, height, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CUmipmappedArray whole;
  CHECK(cuMipmappedArrayCreate(&whole, &shape, levels));
  CUarray array;
  for (unsigned level = 0; level < levels; ++level) {
    CHECK(cuMipmappedArrayGetLevel(&array, whole, level));
    fill(array, width >> level, height >> level, 1, static_cast<float>(level));
  }
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = whole;
  given->texture = texture_on(resource);
  CHECK(cuMipmappedArrayGetLevel(&array, whole, 0));
  resource = on_array(array);
  CHECK(cuSurfObjectCreate(&given->surface, &resource));
  give(given, height, 1);
  given->levels = levels;
  return array;
}

void linear(Texels* given) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = upload(ramp(width));
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = width * 4;
  given->texture = texture_on(resource);
  give(given, 1, 1);
}

void pitched(Texels* given) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  auto& memory = resource.res.pitch2D;
  CHECK(cuMemAllocPitch(&memory.devPtr, &memory.pitchInBytes, width * 4, height, 4));
  CHECK(cuMemsetD32(memory.devPtr, 0x3F800000, memory.pitchInBytes * height / 4));
  memory.format = CU_AD_FORMAT_FLOAT;
  memory.numChannels = 1;
  memory.width = width;
  memory.height = height;
  given->texture = texture_on(resource, CU_TR_FILTER_MODE_LINEAR);
  give(given, height, 1);
}

CUarray make(const std::string& kind, Texels* given) {
  if (kind == "1d") return on_arrays(given, 0, 0, 0);
  if (kind == "3d") return on_arrays(given, height, depth, 0);
  if (kind == "layered") return on_arrays(given, height, depth, CUDA_ARRAY3D_LAYERED);
  if (kind == "layered1d") return on_arrays(given, 0, depth, CUDA_ARRAY3D_LAYERED);
  if (kind == "cubemap") return on_arrays(given, width, 6, CUDA_ARRAY3D_CUBEMAP);
  if (kind == "mipmapped") return mipmapped(given);
  if (kind == "linear") return linear(given), nullptr;
  if (kind == "pitch2d") return pitched(given), nullptr;
  if (kind == "compressed") {
    CUDA_ARRAY3D_DESCRIPTOR shape = {width, height, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0};
    CUarray array;
    CHECK(cuArray3DCreate(&array, &shape));
    given->texture = texture_on(on_array(array));
    give(given, 1, 1);
    return nullptr;
  }
  return on_arrays(given, height, 0, 0);
}

void run(const std::string& way, Texels given) {
  std::vector<void*> sizes = {&given.width, &given.height, &given.depth, &given.levels};
  uint64_t objects[2] = {given.texture, given.surface};
  std::vector<void*> all;
  CUmodule module;
  if (way == "value") {
    launch(load(PTX_HEAD PTX_GATHER_BY_VALUE, GATHER_BY_VALUE), 1, 32, {&given});
  } else if (way == "constant") {
    CUfunction function = load(PTX_HEAD PTX_GATHER_CONSTANT, GATHER_CONSTANT, &module);
    CUdeviceptr address;
    CHECK(cuModuleGetGlobal(&address, nullptr, module, "objects"));
    CHECK(cuMemcpyHtoD(address, objects, sizeof objects));
    all = {&given.out};
    all.insert(all.end(), sizes.begin(), sizes.end());
    launch(function, 1, 32, all);
  } else if (way == "bindless") {
    CUdeviceptr table = upload(std::vector<uint64_t>(objects, objects + 2));
    all = {&table, &given.out};
    all.insert(all.end(), sizes.begin(), sizes.end());
    launch(load(PTX_HEAD PTX_GATHER_BINDLESS, GATHER_BINDLESS), 1, 32, all);
  } else {
    all = {&given.texture, &given.surface, &given.out};
    all.insert(all.end(), sizes.begin(), sizes.end());
    launch(load(PTX_HEAD PTX_GATHER, GATHER), 1, 32, all);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string kind = argc > 1 ? argv[1] : "2d", way = argc > 2 ? argv[2] : "parameter";
  start();
  Texels given, others[4];
  // Numbers that a replay has to reach over others that are gone or that the launch does not use.
  if (argc > 3)
    for (Texels& other : others) linear(&other);
  CUarray written = make(kind, &given);
  if (argc > 3) CHECK(cuTexObjectDestroy(others[1].texture));
  given.out = upload(ramp(given.count()));
  run(way, given);
  CHECK(cuCtxSynchronize());
  report("out", download<float>(given.out, given.count()));
  if (written != nullptr) show(written, given);
  return 0;
}
