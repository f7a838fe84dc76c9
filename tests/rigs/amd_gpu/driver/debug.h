// AMDKFD_IOC_DBG_TRAP of a process that debugs itself: as much of it as ROCr's core dump asks for.
#ifndef KERNCAP_AMD_GPU_DEBUG_H
#define KERNCAP_AMD_GPU_DEBUG_H

#include <linux/kfd_ioctl.h>

#include <atomic>
#include <mutex>

namespace amd_gpu {

// Each function returns 0 or a negative errno value, as an ioctl does.
class Debug {
 public:
  int runtime_enable(kfd_ioctl_runtime_enable_args& arguments);
  // Or the number of queues.
  int request(kfd_ioctl_dbg_trap_args& arguments);
  // Whether the GPU tells each wave its workgroup and dispatch, on chips that do so only if they are asked.
  bool sets_up_ttmps() const { return sets_up_ttmps_; }

 private:
  int enable(kfd_ioctl_dbg_trap_enable_args& arguments);
  int disable();
  int device_snapshot(kfd_ioctl_dbg_trap_device_snapshot_args& arguments);

  std::mutex mutex_;
  kfd_runtime_info runtime_{};
  std::atomic<bool> sets_up_ttmps_{false};
  bool is_enabled_ = false;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_DEBUG_H
