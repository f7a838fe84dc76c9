// The rules are those of amdkfd's kfd_debug.c and kfd_chardev.c.
#include "debug.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver.h"
#include "topology.h"

namespace amd_gpu {
namespace {

kfd_dbg_device_info_entry entry_of(const Device& device, const Chip& chip) {
  kfd_dbg_device_info_entry entry{};
  entry.exception_status = device.exceptions;
  entry.lds_base = shared_aperture;
  entry.lds_limit = shared_aperture + 0xffffffff;
  entry.scratch_base = private_aperture;
  entry.scratch_limit = private_aperture + 0xffffffff;
  entry.gpuvm_base = gpuvm_base;
  entry.gpuvm_limit = gpuvm_limit;
  entry.gpu_id = device.gpu_id;
  entry.location_id = location_of(device.ordinal);
  entry.vendor_id = amd_vendor;
  entry.device_id = chip.device_id;
  entry.fw_version = chip.firmware;
  entry.gfx_target_version = chip.gfx_version;
  entry.simd_count = chip.simds;
  entry.max_waves_per_simd = waves_per_simd;
  entry.array_count = chip.arrays;
  entry.simd_arrays_per_engine = 1;
  entry.num_xcc = 1;
  entry.capability = static_cast<uint32_t>(capability());
  entry.debug_prop = chip.debug_properties;
  return entry;
}

}  // namespace

int Debug::runtime_enable(kfd_ioctl_runtime_enable_args& arguments) {
  std::lock_guard<std::mutex> guard(mutex_);
  if ((arguments.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK) == 0) {
    runtime_ = {};
    return 0;
  }
  if (runtime_.runtime_state != DEBUG_RUNTIME_STATE_DISABLED) return -EBUSY;
  runtime_.r_debug = arguments.r_debug;
  runtime_.runtime_state = DEBUG_RUNTIME_STATE_ENABLED;
  runtime_.ttmp_setup = (arguments.mode_mask & KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK) != 0;
  sets_up_ttmps_ = runtime_.ttmp_setup != 0;
  arguments.capabilities_mask = 0;
  return 0;
}

int Debug::enable(kfd_ioctl_dbg_trap_enable_args& arguments) {
  if (is_enabled_) return -EALREADY;
  if (fcntl(static_cast<int>(arguments.dbg_fd), F_GETFD) < 0) return -EBADF;
  const size_t bytes = std::min<size_t>(arguments.rinfo_size, sizeof runtime_);
  std::memcpy(reinterpret_cast<void*>(arguments.rinfo_ptr), &runtime_, bytes);
  arguments.rinfo_size = static_cast<uint32_t>(bytes);
  is_enabled_ = true;
  return 0;
}

int Debug::disable() {
  if (!is_enabled_) return -EINVAL;
  driver().queues.resume_all();
  is_enabled_ = false;
  return 0;
}

int Debug::device_snapshot(kfd_ioctl_dbg_trap_device_snapshot_args& arguments) {
  if (arguments.entry_size == 0) return -EINVAL;
  const uint32_t room = arguments.num_devices, stride = arguments.entry_size;
  arguments.entry_size = std::min<uint32_t>(stride, sizeof(kfd_dbg_device_info_entry));
  auto* to = reinterpret_cast<uint8_t*>(arguments.snapshot_buf_ptr);
  arguments.num_devices = 0;
  for (const auto& device : driver().devices) {
    if (arguments.num_devices++ >= room) continue;
    const kfd_dbg_device_info_entry entry = entry_of(*device, chip_of(driver()));
    device->exceptions &= ~arguments.exception_mask;
    std::memcpy(to, &entry, arguments.entry_size);
    to += stride;
  }
  return 0;
}

int Debug::request(kfd_ioctl_dbg_trap_args& arguments) {
  if (arguments.pid != static_cast<uint32_t>(getpid())) return -ESRCH;
  std::lock_guard<std::mutex> guard(mutex_);
  if (arguments.op == KFD_IOC_DBG_TRAP_ENABLE) return enable(arguments.enable);
  if (arguments.op == KFD_IOC_DBG_TRAP_DISABLE) return disable();
  if (!is_enabled_) return -EINVAL;
  Queues& queues = driver().queues;
  switch (arguments.op) {
    case KFD_IOC_DBG_TRAP_SUSPEND_QUEUES: {
      if (runtime_.runtime_state != DEBUG_RUNTIME_STATE_ENABLED) return -EPERM;
      auto& wanted = arguments.suspend_queues;
      return queues.suspend(reinterpret_cast<uint32_t*>(wanted.queue_array_ptr), wanted.num_queues,
                            wanted.exception_mask);
    }
    case KFD_IOC_DBG_TRAP_RESUME_QUEUES: {
      auto& wanted = arguments.resume_queues;
      return queues.resume(reinterpret_cast<uint32_t*>(wanted.queue_array_ptr), wanted.num_queues);
    }
    case KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT: {
      auto& wanted = arguments.queue_snapshot;
      if (wanted.entry_size == 0) return -EINVAL;
      const uint32_t room = wanted.num_queues, stride = wanted.entry_size;
      wanted.entry_size = std::min<uint32_t>(stride, sizeof(kfd_queue_snapshot_entry));
      wanted.num_queues = queues.snapshot(reinterpret_cast<uint8_t*>(wanted.snapshot_buf_ptr), room,
                                          wanted.entry_size, stride, wanted.exception_mask);
      return 0;
    }
    case KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT:
      return device_snapshot(arguments.device_snapshot);
    default:
      log(1, "debug operation %u is not emulated", arguments.op);
      return -EACCES;
  }
}

}  // namespace amd_gpu
