#include "physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

#include "config.h"

namespace amd_gpu {
namespace {

constexpr uint64_t first_view = 0x0a0000000000, view_distance = 0x10000000000;
constexpr uint64_t system_bytes = 64ULL << 30;  // address space in the file, not memory that is taken

uint64_t whole_pages(uint64_t bytes) {
  return (bytes + PhysicalMemory::page - 1) & ~(PhysicalMemory::page - 1);
}

}  // namespace

PhysicalMemory::PhysicalMemory(unsigned ordinal, uint64_t device_bytes) : device_bytes_(device_bytes) {
  const uint64_t size = device_bytes + system_bytes;
  file_ = memfd_create("amd-gpu-memory", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size)) != 0) {
    refuse("no memory file (memfd_create, ftruncate)");
  }
  void* const wanted = reinterpret_cast<void*>(first_view + ordinal * view_distance);
  const int flags = MAP_SHARED | MAP_NORESERVE;
  void* view = mmap(wanted, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, file_, 0);
  if (view == MAP_FAILED) view = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (view == MAP_FAILED) refuse("no address space for the GPU's memory (ulimit -v?)");
  // A forked child has no part in its parent's device, as with the real driver, nor a core dump.
  madvise(view, size, MADV_DONTFORK);
  madvise(view, size, MADV_DONTDUMP);
  view_ = static_cast<uint8_t*>(view);
  free_[page] = size - page;  // offset 0 stays free: it would look like "no offset"
}

uint64_t PhysicalMemory::allocate(uint64_t bytes, bool on_device) {
  if (bytes == 0 || bytes > device_bytes_ + system_bytes) return none;
  bytes = whole_pages(bytes);
  std::lock_guard<std::mutex> guard(mutex_);
  if (on_device && bytes > device_bytes_ - device_used_) return none;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < bytes) continue;
    const uint64_t offset = range->first, rest = range->second - bytes;
    free_.erase(range);
    if (rest != 0) free_[offset + bytes] = rest;
    if (on_device) device_used_ += bytes;
    return offset;
  }
  return none;
}

void PhysicalMemory::free(uint64_t offset, uint64_t bytes, bool on_device) {
  bytes = whole_pages(bytes);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  std::lock_guard<std::mutex> guard(mutex_);
  if (on_device) device_used_ -= bytes;
  auto range = free_.emplace(offset, bytes).first;
  const auto next = std::next(range);
  if (next != free_.end() && offset + bytes == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto before = std::prev(range);
  if (before->first + before->second != offset) return;
  before->second += range->second;
  free_.erase(range);
}

uint64_t PhysicalMemory::device_bytes_free() const {
  std::lock_guard<std::mutex> guard(mutex_);
  return device_bytes_ - device_used_;
}

}  // namespace amd_gpu
