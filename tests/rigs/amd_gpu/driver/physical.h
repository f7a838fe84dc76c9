// The memory of one emulated GPU, and the system memory that the driver allocates for it: one sparse file, so
// that the runtime can map parts of it as it maps /dev/dri/renderD<n>, and one view of it all for ourselves.
#ifndef KERNCAP_AMD_GPU_PHYSICAL_H
#define KERNCAP_AMD_GPU_PHYSICAL_H

#include <cstdint>
#include <map>
#include <mutex>

namespace amd_gpu {

class PhysicalMemory {
 public:
  static constexpr uint64_t page = 4096;
  static constexpr uint64_t none = ~0ULL;

  // `ordinal` tells where our view lies: far from where the kernel places mappings by itself, so that it is
  // never in the way of a replay at captured addresses.
  PhysicalMemory(unsigned ordinal, uint64_t device_bytes);
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // The offset in the file; none: not that much is left. Device memory is the limited one. Fresh pages are
  // zero.
  uint64_t allocate(uint64_t bytes, bool on_device);
  void free(uint64_t offset, uint64_t bytes, bool on_device);

  int file() const { return file_; }
  uint8_t* at(uint64_t offset) const { return view_ + offset; }
  bool is_view(uint64_t address) const { return address == reinterpret_cast<uint64_t>(view_); }
  uint64_t device_bytes() const { return device_bytes_; }
  uint64_t device_bytes_free() const;

 private:
  int file_ = -1;
  uint8_t* view_ = nullptr;
  const uint64_t device_bytes_;
  mutable std::mutex mutex_;
  uint64_t device_used_ = 0;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never two that touch
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_PHYSICAL_H
