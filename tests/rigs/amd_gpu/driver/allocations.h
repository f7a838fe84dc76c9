// Buffer objects: what AMDKFD_IOC_ALLOC_MEMORY_OF_GPU makes, maps into GPUs, and exports as a dmabuf.
#ifndef KERNCAP_AMD_GPU_ALLOCATIONS_H
#define KERNCAP_AMD_GPU_ALLOCATIONS_H

#include <linux/kfd_ioctl.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "../gpu.h"

namespace amd_gpu {

struct Device;

// The bytes. Shared by an allocation, what was imported from its dmabuf, and libdrm's buffer objects.
struct Buffer {
  Buffer(Device& home_device, uint64_t bytes, uint32_t allocation_flags)
      : home(home_device), size_bytes(bytes), flags(allocation_flags) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& home;
  const uint64_t size_bytes;
  const uint32_t flags;
  uint8_t* host = nullptr;
  uint64_t offset = 0;  // in the home device's memory file
  bool is_owned = false;

  bool on_device() const { return (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0; }
};
using BufferRef = std::shared_ptr<Buffer>;

// Each function returns 0 or a negative errno value, as an ioctl does.
class Allocations {
 public:
  int allocate(kfd_ioctl_alloc_memory_of_gpu_args& arguments);
  int free(uint64_t handle);
  int map(kfd_ioctl_map_memory_to_gpu_args& arguments);
  int unmap(kfd_ioctl_unmap_memory_from_gpu_args& arguments);

  int export_dmabuf(kfd_ioctl_export_dmabuf_args& arguments);
  int import_dmabuf(kfd_ioctl_import_dmabuf_args& arguments);
  int dmabuf_info(kfd_ioctl_get_dmabuf_info_args& arguments);
  // Null: `descriptor` is no dmabuf of ours.
  BufferRef buffer_of_dmabuf(int descriptor);
  // Null: no such allocation.
  BufferRef buffer(uint64_t handle);
  // Another handle of a buffer, with no address; free() ends it.
  uint64_t add(const BufferRef& buffer);

  // Maps part of a buffer into one GPU (libdrm's way, used for virtual memory management).
  static void map_part(Device& device, const Buffer& buffer, uint64_t offset, uint64_t va, uint64_t bytes,
                       bool writable);

 private:
  struct Allocation {
    uint64_t va = 0;
    BufferRef buffer;
    std::vector<Device*> mapped;
  };

  static void map_whole(Allocation& allocation, Device& device, uint64_t handle);
  static void unmap_all(Allocation& allocation);
  uint64_t add_locked(uint64_t va, const BufferRef& buffer);

  std::mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;
  // By the inode of the file that stands for the dmabuf. Holds no reference: an exported descriptor that
  // outlives its allocation and every import names nothing.
  std::map<ino_t, std::weak_ptr<Buffer>> dmabufs_;
  uint64_t next_ = 1;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ALLOCATIONS_H
