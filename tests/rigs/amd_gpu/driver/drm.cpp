// /dev/dri/renderD<n>, and the few functions of libdrm_amdgpu that ROCr calls. The functions replace the
// library's, since that one would ask much more of the device than ROCr does.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver.h"
#include "files.h"
#include "ioctls.h"
#include "topology.h"

namespace amd_gpu {

int drm_ioctl(unsigned ordinal, unsigned long request, void* arguments) {
  if (_IOC_NR(request) == DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP) {
    auto* const wanted = static_cast<drm_amdgpu_gem_mmap*>(arguments);
    const BufferRef buffer = driver().allocations.buffer(wanted->in.handle);
    if (buffer == nullptr || buffer->home.ordinal != ordinal) return -EINVAL;
    wanted->out.addr_ptr = buffer->offset;
    return 0;
  }
  log(1, "ioctl %#lx of /dev/dri/renderD%u is not emulated", _IOC_NR(request), 128 + ordinal);
  return -EINVAL;
}

}  // namespace amd_gpu

// libdrm leaves both types to its implementation.
struct amdgpu_device {
  int descriptor;  // its own
  unsigned ordinal;
};
struct amdgpu_bo {
  amd_gpu::BufferRef buffer;
  uint64_t handle;  // as the render node knows it
  amd_gpu::Device& device;
};

using amd_gpu::driver;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int amdgpu_device_initialize(int descriptor, uint32_t* major, uint32_t* minor,
                                    amdgpu_device_handle* device) {
  const amd_gpu::files::Found found = amd_gpu::files::find(descriptor);
  if (found.kind != amd_gpu::files::Kind::render) return -EBADF;
  *major = 3;
  *minor = 57;
  *device = new amdgpu_device{amd_gpu::files::duplicate(descriptor), found.ordinal};
  return 0;
}

EXPORT int amdgpu_device_deinitialize(amdgpu_device_handle device) {
  close(device->descriptor);
  delete device;
  return 0;
}

EXPORT int amdgpu_device_get_fd(amdgpu_device_handle device) {
  return device->descriptor;
}

EXPORT const char* amdgpu_get_marketing_name(amdgpu_device_handle) {
  return amd_gpu::chip_of(driver()).name;
}

EXPORT int amdgpu_query_gpu_info(amdgpu_device_handle, amdgpu_gpu_info* info) {
  const amd_gpu::Chip& chip = amd_gpu::chip_of(driver());
  std::memset(info, 0, sizeof *info);
  info->asic_id = chip.device_id;
  info->family_id = chip.family;
  info->max_engine_clk = 1700000;
  info->max_memory_clk = 1600000;
  info->num_shader_engines = chip.arrays;
  info->num_shader_arrays_per_engine = 1;
  info->gpu_counter_freq = 100000;  // of gpu_clock(), in kHz
  return 0;
}

EXPORT int amdgpu_bo_import(amdgpu_device_handle device, enum amdgpu_bo_handle_type type, uint32_t shared,
                            amdgpu_bo_import_result* result) {
  if (type != amdgpu_bo_handle_type_dma_buf_fd) return -EINVAL;
  const amd_gpu::BufferRef buffer = driver().allocations.buffer_of_dmabuf(static_cast<int>(shared));
  if (buffer == nullptr) return -EINVAL;
  amd_gpu::Device& importer = *driver().devices[device->ordinal];
  result->buf_handle = new amdgpu_bo{buffer, driver().allocations.add(buffer), importer};
  result->alloc_size = buffer->size_bytes;
  return 0;
}

EXPORT int amdgpu_bo_export(amdgpu_bo_handle bo, enum amdgpu_bo_handle_type, uint32_t* shared) {
  *shared = static_cast<uint32_t>(bo->handle);
  return 0;
}

EXPORT int amdgpu_bo_free(amdgpu_bo_handle bo) {
  driver().allocations.free(bo->handle);
  delete bo;
  return 0;
}

EXPORT int amdgpu_bo_cpu_map(amdgpu_bo_handle bo, void** host) {
  const amd_gpu::Buffer& buffer = *bo->buffer;
  *host = mmap(nullptr, buffer.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.home.memory.file(),
               static_cast<off_t>(buffer.offset));
  return *host == MAP_FAILED ? -ENOMEM : 0;
}

EXPORT int amdgpu_bo_cpu_unmap(amdgpu_bo_handle) {
  return 0;
}

// Virtual memory management: maps a part into the GPU that imported the buffer.
EXPORT int amdgpu_bo_va_op(amdgpu_bo_handle bo, uint64_t offset, uint64_t size, uint64_t address,
                           uint64_t flags, uint32_t operation) {
  const amd_gpu::Buffer& buffer = *bo->buffer;
  if (offset > buffer.size_bytes || size > buffer.size_bytes - offset) return -EINVAL;
  amd_gpu::log(2, "gpu %u: virtual memory operation %u, %lu bytes at %#lx", buffer.home.ordinal, operation,
               size, address);
  if (operation == AMDGPU_VA_OP_MAP) {
    const bool writable = (flags & AMDGPU_VM_PAGE_WRITEABLE) != 0;
    amd_gpu::Allocations::map_part(bo->device, buffer, offset, address, size, writable);
  } else if (operation == AMDGPU_VA_OP_UNMAP) {
    bo->device.pages.unmap(address, size);
  } else {
    return -EINVAL;
  }
  return 0;
}
