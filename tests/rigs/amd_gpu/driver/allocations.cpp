#include "allocations.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "driver.h"

namespace amd_gpu {
namespace {

bool has(const kfd_ioctl_alloc_memory_of_gpu_args& arguments, uint32_t flag) {
  return (arguments.flags & flag) != 0;
}

// Where the bytes of a new buffer are. 0, or a negative errno value.
int place(Buffer& buffer, kfd_ioctl_alloc_memory_of_gpu_args& arguments) {
  Device& device = buffer.home;
  const uint64_t registers_page = device.ordinal * Doorbells::device_bytes;
  if (has(arguments, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)) {
    buffer.host = reinterpret_cast<uint8_t*>(arguments.mmap_offset);
  } else if (has(arguments, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)) {
    buffer.host = driver().doorbells.at(registers_page);
  } else if (has(arguments, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)) {
    arguments.mmap_offset = registers_page + Doorbells::registers;
    buffer.host = driver().doorbells.at(arguments.mmap_offset);
  } else {
    const uint64_t offset = device.memory.allocate(buffer.size_bytes, buffer.on_device());
    if (offset == PhysicalMemory::none) return -ENOMEM;
    buffer.offset = arguments.mmap_offset = offset;
    buffer.host = device.memory.at(offset);
    buffer.is_owned = true;
  }
  return 0;
}

ino_t inode(int descriptor) {
  struct stat status{};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Buffer::~Buffer() {
  if (is_owned) home.memory.free(offset, size_bytes, on_device());
}

uint64_t Allocations::add_locked(uint64_t va, const BufferRef& buffer) {
  const uint64_t handle = next_++;
  allocations_[handle] = {va, buffer, {}};
  return handle;
}

uint64_t Allocations::add(const BufferRef& buffer) {
  std::lock_guard<std::mutex> guard(mutex_);
  return add_locked(0, buffer);
}

int Allocations::allocate(kfd_ioctl_alloc_memory_of_gpu_args& arguments) {
  Device* const device = driver().device(arguments.gpu_id);
  if (device == nullptr || arguments.size == 0) return -EINVAL;
  if (driver().failures.allocation()) {
    log(0, "allocation of %llu bytes fails: asked for by AMD_GPU_FAIL", arguments.size);
    return -ENOMEM;
  }
  const auto buffer = std::make_shared<Buffer>(*device, arguments.size, arguments.flags);
  const int status = place(*buffer, arguments);
  log(2, "gpu %u: allocate %llu bytes for %#llx, flags %#x: %d", device->ordinal, arguments.size,
      arguments.va_addr, arguments.flags, status);
  if (status != 0) return status;
  std::lock_guard<std::mutex> guard(mutex_);
  arguments.handle = add_locked(arguments.va_addr, buffer);
  return 0;
}

int Allocations::free(uint64_t handle) {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = allocations_.find(handle);
  if (found == allocations_.end()) return -EINVAL;
  log(2, "free %#lx", found->second.va);
  unmap_all(found->second);
  allocations_.erase(found);
  return 0;
}

void Allocations::map_part(Device& device, const Buffer& buffer, uint64_t offset, uint64_t va, uint64_t bytes,
                           bool writable) {
  device.pages.map({va, bytes, buffer.host + offset, writable, 0});
}

// An imported buffer with no address of its own gets one from libdrm.
void Allocations::map_whole(Allocation& allocation, Device& device, uint64_t handle) {
  const Buffer& buffer = *allocation.buffer;
  const bool writable = (buffer.flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE) != 0;
  if (allocation.va != 0) {
    device.pages.map({allocation.va, buffer.size_bytes, buffer.host, writable, handle});
  }
  if (std::find(allocation.mapped.begin(), allocation.mapped.end(), &device) == allocation.mapped.end()) {
    allocation.mapped.push_back(&device);
  }
}

void Allocations::unmap_all(Allocation& allocation) {
  for (Device* device : allocation.mapped) {
    if (allocation.va != 0) device->pages.unmap(allocation.va, allocation.buffer->size_bytes);
  }
  allocation.mapped.clear();
}

int Allocations::map(kfd_ioctl_map_memory_to_gpu_args& arguments) {
  const auto* const ids = reinterpret_cast<const uint32_t*>(arguments.device_ids_array_ptr);
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = allocations_.find(arguments.handle);
  if (found == allocations_.end()) return -EINVAL;
  for (; arguments.n_success < arguments.n_devices; ++arguments.n_success) {
    Device* const device = driver().device(ids[arguments.n_success]);
    if (device == nullptr) return -EINVAL;
    map_whole(found->second, *device, arguments.handle);
  }
  return 0;
}

int Allocations::unmap(kfd_ioctl_unmap_memory_from_gpu_args& arguments) {
  const auto* const ids = reinterpret_cast<const uint32_t*>(arguments.device_ids_array_ptr);
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = allocations_.find(arguments.handle);
  if (found == allocations_.end()) return -EINVAL;
  Allocation& allocation = found->second;
  for (; arguments.n_success < arguments.n_devices; ++arguments.n_success) {
    Device* const device = driver().device(ids[arguments.n_success]);
    if (device == nullptr) return -EINVAL;
    const auto place = std::find(allocation.mapped.begin(), allocation.mapped.end(), device);
    if (place == allocation.mapped.end()) continue;
    if (allocation.va != 0) device->pages.unmap(allocation.va, allocation.buffer->size_bytes);
    allocation.mapped.erase(place);
  }
  return 0;
}

BufferRef Allocations::buffer(uint64_t handle) {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = allocations_.find(handle);
  return found == allocations_.end() ? nullptr : found->second.buffer;
}

int Allocations::export_dmabuf(kfd_ioctl_export_dmabuf_args& arguments) {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = allocations_.find(arguments.handle);
  if (found == allocations_.end()) return -EINVAL;
  const int file = memfd_create("amd-gpu-dmabuf", MFD_CLOEXEC);
  if (file < 0) return -errno;
  dmabufs_[inode(file)] = found->second.buffer;
  arguments.dmabuf_fd = static_cast<uint32_t>(file);
  return 0;
}

BufferRef Allocations::buffer_of_dmabuf(int descriptor) {
  const ino_t key = inode(descriptor);
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = dmabufs_.find(key);
  return found == dmabufs_.end() ? nullptr : found->second.lock();
}

int Allocations::import_dmabuf(kfd_ioctl_import_dmabuf_args& arguments) {
  const BufferRef buffer = buffer_of_dmabuf(static_cast<int>(arguments.dmabuf_fd));
  if (buffer == nullptr) return -EINVAL;
  std::lock_guard<std::mutex> guard(mutex_);
  arguments.handle = add_locked(arguments.va_addr, buffer);
  return 0;
}

int Allocations::dmabuf_info(kfd_ioctl_get_dmabuf_info_args& arguments) {
  const BufferRef buffer = buffer_of_dmabuf(static_cast<int>(arguments.dmabuf_fd));
  if (buffer == nullptr) return -EINVAL;
  arguments.size = buffer->size_bytes;
  arguments.gpu_id = buffer->home.gpu_id;
  arguments.flags = buffer->flags;
  arguments.metadata_size = 0;
  return 0;
}

}  // namespace amd_gpu
