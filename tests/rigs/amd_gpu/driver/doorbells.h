// The pages that /dev/kfd hands out: a doorbell of eight bytes for each queue, and the page of remapped
// registers.
#ifndef KERNCAP_AMD_GPU_DOORBELLS_H
#define KERNCAP_AMD_GPU_DOORBELLS_H

#include <cstdint>
#include <mutex>
#include <vector>

namespace amd_gpu {

class Doorbells {
 public:
  // One device's part of the file. The runtime rounds a doorbell's offset down to 8 KiB to map its page.
  static constexpr uint64_t device_bytes = 0x10000, registers = 0x4000, events_page = 0x8000;
  static constexpr unsigned per_device = 1024;
  static constexpr uint64_t devices = 4, none = ~0ULL;

  Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  int file() const { return file_; }
  uint8_t* at(uint64_t offset) const { return view_ + offset; }

  // The offset of a free doorbell, which then holds -1: nothing was submitted. none: all are taken.
  uint64_t take(unsigned device);
  void give_back(uint64_t offset);

 private:
  int file_ = -1;
  uint8_t* view_ = nullptr;
  std::mutex mutex_;
  std::vector<bool> taken_;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_DOORBELLS_H
