// The rules are those of amdkfd's kfd_svm.c.
#include "svm.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "driver.h"

namespace amd_gpu {
namespace {

bool is_access(uint32_t type) {
  return type == KFD_IOCTL_SVM_ATTR_ACCESS || type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE ||
         type == KFD_IOCTL_SVM_ATTR_NO_ACCESS;
}

}  // namespace

int SharedVirtualMemory::request(kfd_ioctl_svm_args& arguments) {
  if (arguments.size == 0 || (arguments.start_addr | arguments.size) % PhysicalMemory::page != 0) {
    return -EINVAL;
  }
  std::lock_guard<std::mutex> guard(mutex_);
  if (arguments.op == KFD_IOCTL_SVM_OP_SET_ATTR) return set(arguments);
  return arguments.op == KFD_IOCTL_SVM_OP_GET_ATTR ? get(arguments) : -EINVAL;
}

// After it no range has `at` inside.
void SharedVirtualMemory::split(uint64_t at) {
  auto next = ranges_.lower_bound(at);
  if (next == ranges_.begin()) return;
  auto& [start, range] = *std::prev(next);
  if (start + range.bytes <= at) return;
  Range rest = range;
  rest.bytes = start + range.bytes - at;
  range.bytes = at - start;
  ranges_[at] = rest;
}

void SharedVirtualMemory::fill_holes(uint64_t start, uint64_t end) {
  for (uint64_t at = start; at < end;) {
    const auto next = ranges_.lower_bound(at);
    if (next != ranges_.end() && next->first == at) {
      at += next->second.bytes;
      continue;
    }
    const uint64_t until = next == ranges_.end() ? end : std::min(end, next->first);
    ranges_[at].bytes = until - at;
    at = until;
  }
}

bool SharedVirtualMemory::apply(Range& range, const kfd_ioctl_svm_attribute& attribute) {
  switch (attribute.type) {
    case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
      range.preferred = attribute.value;
      return true;
    case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
      range.prefetch = attribute.value;
      return true;
    case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
      range.flags |= attribute.value;
      return true;
    case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
      range.flags &= ~attribute.value;
      return true;
    case KFD_IOCTL_SVM_ATTR_GRANULARITY:
      range.granularity = attribute.value;
      return true;
    default:
      break;
  }
  const Device* const device = driver().device(attribute.value);
  if (!is_access(attribute.type) || device == nullptr) return false;
  range.access[device->ordinal] = attribute.type;
  return true;
}

bool SharedVirtualMemory::read(const Range& range, kfd_ioctl_svm_attribute& attribute) {
  switch (attribute.type) {
    case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
      attribute.value = range.preferred;
      return true;
    case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
      attribute.value = range.prefetch;
      return true;
    case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
      attribute.value = range.flags;
      return true;
    case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
      attribute.value = ~range.flags;
      return true;
    case KFD_IOCTL_SVM_ATTR_GRANULARITY:
      attribute.value = range.granularity;
      return true;
    default:
      break;
  }
  const Device* const device = driver().device(attribute.value);
  if (!is_access(attribute.type) || device == nullptr) return false;
  attribute.type = range.access[device->ordinal];
  return true;
}

void SharedVirtualMemory::map_into_devices(uint64_t start, const Range& range) {
  const bool writable = (range.flags & KFD_IOCTL_SVM_FLAG_GPU_RO) == 0;
  for (const auto& device : driver().devices) {
    if (range.access[device->ordinal] == KFD_IOCTL_SVM_ATTR_NO_ACCESS) {
      device->pages.unmap(start, range.bytes);
    } else {
      device->pages.map({start, range.bytes, reinterpret_cast<uint8_t*>(start), writable, 0});
    }
  }
}

int SharedVirtualMemory::set(kfd_ioctl_svm_args& arguments) {
  const uint64_t start = arguments.start_addr, end = start + arguments.size;
  log(2, "svm %#lx, %llu bytes: %u attributes", start, arguments.size, arguments.nattr);
  Range trial;
  for (uint32_t i = 0; i < arguments.nattr; ++i) {
    if (!apply(trial, arguments.attrs[i])) return -EINVAL;
  }
  is_used_ = true;
  split(start);
  split(end);
  fill_holes(start, end);
  for (auto range = ranges_.find(start); range != ranges_.end() && range->first < end; ++range) {
    for (uint32_t i = 0; i < arguments.nattr; ++i) apply(range->second, arguments.attrs[i]);
    map_into_devices(range->first, range->second);
  }
  return 0;
}

// Of a range with several values a location is said to be undefined, and of flags and access the least is
// said.
int SharedVirtualMemory::get(kfd_ioctl_svm_args& arguments) {
  const uint64_t start = arguments.start_addr, end = start + arguments.size;
  split(start);
  split(end);
  fill_holes(start, end);
  for (uint32_t i = 0; i < arguments.nattr; ++i) {
    const kfd_ioctl_svm_attribute asked = arguments.attrs[i];
    kfd_ioctl_svm_attribute& answer = arguments.attrs[i];
    auto range = ranges_.find(start);
    if (!read(range->second, answer)) return -EINVAL;
    for (++range; range != ranges_.end() && range->first < end; ++range) {
      kfd_ioctl_svm_attribute other = asked;
      read(range->second, other);
      if (is_access(asked.type)) {
        answer.type = std::max(answer.type, other.type);
      } else if (asked.type <= KFD_IOCTL_SVM_ATTR_PREFETCH_LOC && other.value != answer.value) {
        answer.value = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
      } else if (asked.type == KFD_IOCTL_SVM_ATTR_GRANULARITY) {
        answer.value = std::min(answer.value, other.value);
      } else {
        answer.value &= other.value;
      }
    }
  }
  return 0;
}

void SharedVirtualMemory::host_unmaps(uint64_t start, uint64_t bytes) {
  const uint64_t end = start + bytes;
  std::lock_guard<std::mutex> guard(mutex_);
  split(start);
  split(end);
  auto range = ranges_.lower_bound(start);
  while (range != ranges_.end() && range->first < end) {
    for (const auto& device : driver().devices) device->pages.unmap(range->first, range->second.bytes);
    range = ranges_.erase(range);
  }
}

}  // namespace amd_gpu
