// Shared virtual memory (AMDKFD_IOC_SVM): host memory that a GPU reaches at the host's own address, by
// attributes of address ranges. HIP's managed memory is made of it. Without xnack a GPU reaches a range only
// where it was given access; nothing migrates, since there is one memory.
#ifndef KERNCAP_AMD_GPU_SVM_H
#define KERNCAP_AMD_GPU_SVM_H

#include <linux/kfd_ioctl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace amd_gpu {

class SharedVirtualMemory {
 public:
  // AMDKFD_IOC_SVM: 0 or a negative errno value.
  int request(kfd_ioctl_svm_args& arguments);

  // The host unmaps this range: the GPUs lose it first, as the kernel's MMU notifier does it.
  void host_unmaps(uint64_t start, uint64_t bytes);
  bool is_used() const { return is_used_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    uint64_t bytes = 0;
    uint32_t preferred = KFD_IOCTL_SVM_LOCATION_UNDEFINED, prefetch = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
    uint32_t flags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT, granularity = 9;
    std::array<uint32_t, 4> access{{KFD_IOCTL_SVM_ATTR_NO_ACCESS, KFD_IOCTL_SVM_ATTR_NO_ACCESS,
                                    KFD_IOCTL_SVM_ATTR_NO_ACCESS, KFD_IOCTL_SVM_ATTR_NO_ACCESS}};
  };
  using Ranges = std::map<uint64_t, Range>;

  int set(kfd_ioctl_svm_args& arguments);
  int get(kfd_ioctl_svm_args& arguments);
  void split(uint64_t at);
  void fill_holes(uint64_t start, uint64_t end);
  static bool apply(Range& range, const kfd_ioctl_svm_attribute& attribute);
  static bool read(const Range& range, kfd_ioctl_svm_attribute& attribute);
  static void map_into_devices(uint64_t start, const Range& range);

  std::mutex mutex_;
  Ranges ranges_;
  std::atomic<bool> is_used_{false};
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_SVM_H
