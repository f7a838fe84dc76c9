#include "doorbells.h"

#include <sys/mman.h>
#include <unistd.h>

#include "config.h"

namespace amd_gpu {

Doorbells::Doorbells() : taken_(devices * per_device) {
  const uint64_t size = devices * device_bytes;
  file_ = memfd_create("amd-gpu-doorbells", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size)) != 0) {
    refuse("no doorbell file (memfd_create, ftruncate)");
  }
  void* view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (view == MAP_FAILED) refuse("no address space for doorbells");
  madvise(view, size, MADV_DONTFORK);
  madvise(view, size, MADV_DONTDUMP);
  view_ = static_cast<uint8_t*>(view);
}

uint64_t Doorbells::take(unsigned device) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (unsigned i = device * per_device; i < (device + 1) * per_device; ++i) {
    if (taken_[i]) continue;
    taken_[i] = true;
    const uint64_t offset = device * device_bytes + (i % per_device) * sizeof(int64_t);
    __atomic_store_n(reinterpret_cast<int64_t*>(at(offset)), -1, __ATOMIC_RELEASE);
    return offset;
  }
  return none;
}

void Doorbells::give_back(uint64_t offset) {
  std::lock_guard<std::mutex> guard(mutex_);
  taken_[offset / device_bytes * per_device + offset % device_bytes / sizeof(int64_t)] = false;
}

}  // namespace amd_gpu
