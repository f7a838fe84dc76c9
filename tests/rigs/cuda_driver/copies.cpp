// Copies and memsets. All are one form inside: CUDA_MEMCPY3D and CUDA_MEMSET_NODE_PARAMS.
#include <cstring>

#include "arrays.h"
#include "memory.h"

namespace rig {

namespace {

struct Side {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z, pitch, height;
};

Side source(const CUDA_MEMCPY3D& c) {
  return {c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcXInBytes,
          c.srcY,          c.srcZ,    c.srcPitch,  c.srcHeight};
}

Side target(const CUDA_MEMCPY3D& c) {
  return {c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstXInBytes,
          c.dstY,          c.dstZ,    c.dstPitch,  c.dstHeight};
}

// Where row (y, z) of a side lies on the host; null: not live. A host pointer that the driver knows
// nothing of is pageable memory.
uint8_t* row(const Side& side, size_t y, size_t z, size_t width) {
  if (side.type == CU_MEMORYTYPE_ARRAY) return array_row(side.array, side.x, side.y + y, side.z + z, width);
  size_t offset = ((side.z + z) * side.height + side.y + y) * side.pitch + side.x;
  if (side.type == CU_MEMORYTYPE_HOST) return static_cast<uint8_t*>(const_cast<void*>(side.host)) + offset;
  CUdeviceptr address = side.device + offset;
  if (auto* at = static_cast<uint8_t*>(Memory::instance().host(address, width))) return at;
  if (side.type == CU_MEMORYTYPE_UNIFIED && !in_arena(address)) return reinterpret_cast<uint8_t*>(address);
  return nullptr;
}

bool reachable(const Side& side, const CUDA_MEMCPY3D& copy) {
  for (size_t z = 0; z < copy.Depth; ++z)
    for (size_t y = 0; y < copy.Height; ++y)
      if (!row(side, y, z, copy.WidthInBytes)) return false;
  return true;
}

bool pageable(const Side& side) {
  if (side.type == CU_MEMORYTYPE_ARRAY) return false;
  auto address = side.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(side.host) : side.device;
  return !in_arena(address) && !Memory::instance().find(address, nullptr);
}

void fill_defaults(CUDA_MEMCPY3D* copy) {
  if (!copy->Depth) copy->Depth = 1;
  if (!copy->srcPitch) copy->srcPitch = copy->WidthInBytes + copy->srcXInBytes;
  if (!copy->dstPitch) copy->dstPitch = copy->WidthInBytes + copy->dstXInBytes;
  if (!copy->srcHeight) copy->srcHeight = copy->Height + copy->srcY;
  if (!copy->dstHeight) copy->dstHeight = copy->Height + copy->dstY;
}

std::shared_ptr<std::vector<uint8_t>> stage(const CUDA_MEMCPY3D& copy) {
  auto staged = std::make_shared<std::vector<uint8_t>>();
  Side side = source(copy);
  for (size_t z = 0; z < copy.Depth; ++z)
    for (size_t y = 0; y < copy.Height; ++y) {
      const uint8_t* from = row(side, y, z, copy.WidthInBytes);
      staged->insert(staged->end(), from, from + copy.WidthInBytes);
    }
  return staged;
}

enum class Mode { wait, async };

// As the driver: pageable memory is read before an asynchronous copy returns, and written too.
bool is_hidden(CUdeviceptr address) {
  Allocation found;
  return Memory::instance().find(address, &found) && found.is_hidden;
}

CUresult copy(CUDA_MEMCPY3D parameters, CUstream handle, Mode mode) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (mode == Mode::wait)
    if (CUresult error = unless_capturing()) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  if (CUresult error = injected_copy_error()) return error;
  fill_defaults(&parameters);
  if (!parameters.WidthInBytes || !parameters.Height) return CUDA_SUCCESS;
  if (!reachable(source(parameters), parameters) || !reachable(target(parameters), parameters))
    return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.copy = parameters;
  if (stream->capture) return submit(stream, std::move(work));
  if (is_hidden(parameters.srcDevice) || is_hidden(parameters.dstDevice)) return CUDA_ERROR_INVALID_VALUE;
  bool from_pageable = pageable(source(parameters)), to_pageable = pageable(target(parameters));
  if (mode == Mode::async && from_pageable && !to_pageable) work.staged = stage(parameters);
  if (mode == Mode::wait || to_pageable) return submit_and_wait(stream, std::move(work));
  return submit(stream, std::move(work));
}

CUDA_MEMCPY3D flat(size_t bytes) {
  CUDA_MEMCPY3D c = {};
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}

CUDA_MEMCPY3D unified(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D c = flat(bytes);
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = from;
  c.dstDevice = to;
  return c;
}

CUDA_MEMCPY3D to_device(CUdeviceptr to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D c = flat(bytes);
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = from;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = to;
  return c;
}

CUDA_MEMCPY3D to_host(void* to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D c = flat(bytes);
  c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = from;
  c.dstMemoryType = CU_MEMORYTYPE_HOST;
  c.dstHost = to;
  return c;
}

CUDA_MEMCPY3D between(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D c = unified(to, from, bytes);
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  return c;
}

CUDA_MEMCPY3D rows(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D c = {};
  c.srcXInBytes = p.srcXInBytes, c.srcY = p.srcY, c.srcMemoryType = p.srcMemoryType, c.srcHost = p.srcHost;
  c.srcDevice = p.srcDevice, c.srcArray = p.srcArray, c.srcPitch = p.srcPitch;
  c.dstXInBytes = p.dstXInBytes, c.dstY = p.dstY, c.dstMemoryType = p.dstMemoryType, c.dstHost = p.dstHost;
  c.dstDevice = p.dstDevice, c.dstArray = p.dstArray, c.dstPitch = p.dstPitch;
  c.WidthInBytes = p.WidthInBytes, c.Height = p.Height, c.Depth = 1;
  return c;
}

CUDA_MEMCPY3D array_side(CUarray array, size_t offset, size_t bytes, bool is_target, CUDA_MEMCPY3D c) {
  (void)bytes;
  if (is_target) {
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = array;
    c.dstXInBytes = offset;
  } else {
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = array;
    c.srcXInBytes = offset;
  }
  return c;
}

CUresult fill(CUdeviceptr to, size_t pitch, unsigned value, unsigned size, size_t width, size_t height,
              CUstream handle, Mode mode) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (mode == Mode::wait)
    if (CUresult error = unless_capturing()) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  if (!width || !height) return CUDA_SUCCESS;
  for (size_t y = 0; y < height; ++y)
    if (!Memory::instance().is_live(to + y * pitch, width * size)) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.memset = {to, pitch, value, size, width, height};
  return submit(stream, std::move(work));
}

}  // namespace

CUresult run_copy(const CUDA_MEMCPY3D& given, const std::vector<uint8_t>* staged) {
  CUDA_MEMCPY3D copy = given;
  fill_defaults(&copy);
  Side from = source(copy), to = target(copy);
  size_t done = 0;
  for (size_t z = 0; z < copy.Depth; ++z) {
    for (size_t y = 0; y < copy.Height; ++y) {
      uint8_t* out = row(to, y, z, copy.WidthInBytes);
      const uint8_t* in = staged ? staged->data() + done : row(from, y, z, copy.WidthInBytes);
      if (!out || !in) return CUDA_ERROR_ILLEGAL_ADDRESS;
      std::memmove(out, in, copy.WidthInBytes);
      done += copy.WidthInBytes;
    }
  }
  return CUDA_SUCCESS;
}

CUresult run_memset(const CUDA_MEMSET_NODE_PARAMS_v1& m) {
  for (size_t y = 0; y < m.height; ++y) {
    auto* out = static_cast<uint8_t*>(Memory::instance().host(m.dst + y * m.pitch, m.width * m.elementSize));
    if (!out) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (m.elementSize == 1)
      std::memset(out, static_cast<int>(m.value), m.width);
    else
      for (size_t i = 0; i < m.width; ++i) std::memcpy(out + i * m.elementSize, &m.value, m.elementSize);
  }
  return CUDA_SUCCESS;
}

}  // namespace rig

using namespace rig;

RIG_API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(unified(to, from, n), 0, Mode::wait);
}
RIG_API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(unified(to, from, n), s, Mode::async);
}
RIG_API cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
  return copy(to_device(to, from, n), 0, Mode::wait);
}
RIG_API cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
  return copy(to_host(to, from, n), 0, Mode::wait);
}
RIG_API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(between(to, from, n), 0, Mode::async);
}
RIG_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  return copy(to_device(to, from, n), s, Mode::async);
}
RIG_API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(to_host(to, from, n), s, Mode::async);
}
RIG_API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(between(to, from, n), s, Mode::async);
}
RIG_API cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n) {
  return copy(between(to, from, n), 0, Mode::wait);
}
RIG_API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n, CUstream s) {
  return copy(between(to, from, n), s, Mode::async);
}
RIG_API cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
  return copy(rows(*p), 0, Mode::wait);
}
RIG_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) {
  return copy(rows(*p), 0, Mode::wait);
}
RIG_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream s) {
  return copy(rows(*p), s, Mode::async);
}
RIG_API cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) {
  return copy(*p, 0, Mode::wait);
}
RIG_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream s) {
  return copy(*p, s, Mode::async);
}
RIG_API cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t n) {
  return copy(array_side(to, offset, n, true, to_device(0, from, n)), 0, Mode::wait);
}
RIG_API cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t n) {
  return copy(array_side(from, offset, n, false, to_host(to, 0, n)), 0, Mode::wait);
}
RIG_API cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t n) {
  return copy(array_side(to, offset, n, true, between(0, from, n)), 0, Mode::wait);
}
RIG_API cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t n) {
  return copy(array_side(from, offset, n, false, between(to, 0, n)), 0, Mode::wait);
}

RIG_API cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                              CUmemcpyAttributes*, size_t*, size_t, CUstream stream) {
  for (size_t i = 0; i < count; ++i)
    if (CUresult error = copy(unified(to[i], from[i], sizes[i]), stream, Mode::async)) return error;
  return CUDA_SUCCESS;
}
RIG_API cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                           CUmemcpyAttributes* attributes, size_t* indices, size_t n, size_t* failed,
                           CUstream stream) {
  if (failed) *failed = SIZE_MAX;
  return cuMemcpyBatchAsync_v2(to, from, sizes, count, attributes, indices, n, stream);
}

RIG_API cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
  return fill(to, 0, value, 1, n, 1, 0, Mode::wait);
}
RIG_API cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n) {
  return fill(to, 0, value, 2, n, 1, 0, Mode::wait);
}
RIG_API cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) {
  return fill(to, 0, value, 4, n, 1, 0, Mode::wait);
}
RIG_API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s) {
  return fill(to, 0, value, 1, n, 1, s, Mode::async);
}
RIG_API cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream s) {
  return fill(to, 0, value, 2, n, 1, s, Mode::async);
}
RIG_API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream s) {
  return fill(to, 0, value, 4, n, 1, s, Mode::async);
}
RIG_API cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill(to, pitch, value, 1, width, height, 0, Mode::wait);
}
RIG_API cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill(to, pitch, value, 4, width, height, 0, Mode::wait);
}
RIG_API cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                          CUstream s) {
  return fill(to, pitch, value, 1, width, height, s, Mode::async);
}
RIG_API cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                           CUstream s) {
  return fill(to, pitch, value, 4, width, height, s, Mode::async);
}
