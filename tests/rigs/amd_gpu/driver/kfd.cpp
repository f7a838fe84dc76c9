// /dev/kfd: one line for each ioctl that ROCr uses. Source: linux/kfd_ioctl.h, amdkfd's kfd_chardev.c.
#include <linux/kfd_ioctl.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "driver.h"
#include "ioctls.h"
#include "topology.h"

namespace amd_gpu {
namespace {

int get_version(kfd_ioctl_get_version_args& arguments) {
  arguments.major_version = 1;
  arguments.minor_version = 15;
  return 0;
}

int get_clock_counters(kfd_ioctl_get_clock_counters_args& arguments) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  arguments.gpu_clock_counter = gpu_clock();
  arguments.cpu_clock_counter = arguments.gpu_clock_counter * 10;
  arguments.system_clock_counter = static_cast<uint64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
  arguments.system_clock_freq = 1000000000;
  return 0;
}

// What nothing depends on here: where scratch lies, masks of compute units, cache policies.
template <class T>
int accept(T&) {
  return 0;
}

int get_tile_config(kfd_ioctl_get_tile_config_args& arguments) {
  arguments.num_tile_configs = arguments.num_macro_tile_configs = 0;
  arguments.gb_addr_config = 0x26013041;
  arguments.num_banks = arguments.num_ranks = 0;
  return 0;
}

int get_apertures(kfd_ioctl_get_process_apertures_new_args& arguments) {
  const auto& devices = driver().devices;
  auto* const apertures =
      reinterpret_cast<kfd_process_device_apertures*>(arguments.kfd_process_device_apertures_ptr);
  const size_t room = apertures == nullptr ? 0 : arguments.num_of_nodes;
  for (size_t i = 0; i < devices.size() && i < room; ++i) {
    kfd_process_device_apertures aperture{};
    aperture.lds_base = shared_aperture;
    aperture.lds_limit = shared_aperture + 0xffffffff;
    aperture.scratch_base = private_aperture;
    aperture.scratch_limit = private_aperture + 0xffffffff;
    aperture.gpuvm_base = gpuvm_base;
    aperture.gpuvm_limit = gpuvm_limit;
    aperture.gpu_id = devices[i]->gpu_id;
    apertures[i] = aperture;
  }
  arguments.num_of_nodes = static_cast<uint32_t>(devices.size());
  return 0;
}

int set_trap_handler(kfd_ioctl_set_trap_handler_args& arguments) {
  Device* const device = driver().device(arguments.gpu_id);
  if (device == nullptr) return -EINVAL;
  device->trap_handler = arguments.tba_addr;
  return 0;
}

int runtime_enable(kfd_ioctl_runtime_enable_args& arguments) {
  return driver().debug.runtime_enable(arguments);
}
int debug(kfd_ioctl_dbg_trap_args& arguments) {
  return driver().debug.request(arguments);
}

int acquire_vm(kfd_ioctl_acquire_vm_args& arguments) {
  return driver().device(arguments.gpu_id) == nullptr ? -EINVAL : 0;
}

// Page faults are not retried: a kernel that touches what is not mapped has failed.
int set_xnack_mode(kfd_ioctl_set_xnack_mode_args& arguments) {
  if (arguments.xnack_enabled > 0) return -EPERM;
  arguments.xnack_enabled = 0;
  return 0;
}

int available_memory(kfd_ioctl_get_available_memory_args& arguments) {
  const Device* const device = driver().device(arguments.gpu_id);
  if (device == nullptr) return -EINVAL;
  arguments.available = device->memory.device_bytes_free();
  return 0;
}

int create_queue(kfd_ioctl_create_queue_args& arguments) {
  return driver().queues.create(arguments);
}
int update_queue(kfd_ioctl_update_queue_args& arguments) {
  return driver().queues.update(arguments);
}
int destroy_queue(kfd_ioctl_destroy_queue_args& arguments) {
  return driver().queues.destroy(arguments.queue_id);
}

// For cooperative launches, whose kernels run here as others do.
int allocate_gws(kfd_ioctl_alloc_queue_gws_args& arguments) {
  arguments.first_gws = 0;
  return 0;
}

int create_event(kfd_ioctl_create_event_args& arguments) {
  return driver().events.create(arguments);
}
int destroy_event(kfd_ioctl_destroy_event_args& arguments) {
  return driver().events.destroy(arguments.event_id);
}
int set_event(kfd_ioctl_set_event_args& arguments) {
  return driver().events.set(arguments.event_id);
}
int reset_event(kfd_ioctl_reset_event_args& arguments) {
  return driver().events.reset(arguments.event_id);
}
int wait_events(kfd_ioctl_wait_events_args& arguments) {
  return driver().events.wait(arguments);
}

int allocate_memory(kfd_ioctl_alloc_memory_of_gpu_args& arguments) {
  return driver().allocations.allocate(arguments);
}
int free_memory(kfd_ioctl_free_memory_of_gpu_args& arguments) {
  return driver().allocations.free(arguments.handle);
}
int map_memory(kfd_ioctl_map_memory_to_gpu_args& arguments) {
  return driver().allocations.map(arguments);
}
int unmap_memory(kfd_ioctl_unmap_memory_from_gpu_args& arguments) {
  return driver().allocations.unmap(arguments);
}
int export_dmabuf(kfd_ioctl_export_dmabuf_args& arguments) {
  return driver().allocations.export_dmabuf(arguments);
}
int import_dmabuf(kfd_ioctl_import_dmabuf_args& arguments) {
  return driver().allocations.import_dmabuf(arguments);
}
int dmabuf_info(kfd_ioctl_get_dmabuf_info_args& arguments) {
  return driver().allocations.dmabuf_info(arguments);
}
int shared_virtual_memory(kfd_ioctl_svm_args& arguments) {
  return driver().svm.request(arguments);
}

template <auto handler, class T>
int call(void* arguments) {
  return handler(*static_cast<T*>(arguments));
}

struct Entry {
  unsigned long request;
  const char* name;
  int (*handler)(void*);
};

#define KFD(request, handler, type) {AMDKFD_IOC_##request, #request, call<handler, kfd_ioctl_##type>}

constexpr Entry entries[] = {
    KFD(GET_VERSION, get_version, get_version_args),
    KFD(CREATE_QUEUE, create_queue, create_queue_args),
    KFD(UPDATE_QUEUE, update_queue, update_queue_args),
    KFD(DESTROY_QUEUE, destroy_queue, destroy_queue_args),
    KFD(SET_MEMORY_POLICY, accept<kfd_ioctl_set_memory_policy_args>, set_memory_policy_args),
    KFD(GET_CLOCK_COUNTERS, get_clock_counters, get_clock_counters_args),
    KFD(CREATE_EVENT, create_event, create_event_args),
    KFD(DESTROY_EVENT, destroy_event, destroy_event_args),
    KFD(SET_EVENT, set_event, set_event_args),
    KFD(RESET_EVENT, reset_event, reset_event_args),
    KFD(WAIT_EVENTS, wait_events, wait_events_args),
    KFD(SET_SCRATCH_BACKING_VA, accept<kfd_ioctl_set_scratch_backing_va_args>, set_scratch_backing_va_args),
    KFD(GET_TILE_CONFIG, get_tile_config, get_tile_config_args),
    KFD(SET_TRAP_HANDLER, set_trap_handler, set_trap_handler_args),
    KFD(GET_PROCESS_APERTURES_NEW, get_apertures, get_process_apertures_new_args),
    KFD(ACQUIRE_VM, acquire_vm, acquire_vm_args),
    KFD(ALLOC_MEMORY_OF_GPU, allocate_memory, alloc_memory_of_gpu_args),
    KFD(FREE_MEMORY_OF_GPU, free_memory, free_memory_of_gpu_args),
    KFD(MAP_MEMORY_TO_GPU, map_memory, map_memory_to_gpu_args),
    KFD(UNMAP_MEMORY_FROM_GPU, unmap_memory, unmap_memory_from_gpu_args),
    KFD(SET_CU_MASK, accept<kfd_ioctl_set_cu_mask_args>, set_cu_mask_args),
    KFD(GET_DMABUF_INFO, dmabuf_info, get_dmabuf_info_args),
    KFD(IMPORT_DMABUF, import_dmabuf, import_dmabuf_args),
    KFD(EXPORT_DMABUF, export_dmabuf, export_dmabuf_args),
    KFD(ALLOC_QUEUE_GWS, allocate_gws, alloc_queue_gws_args),
    KFD(SVM, shared_virtual_memory, svm_args),
    KFD(SET_XNACK_MODE, set_xnack_mode, set_xnack_mode_args),
    KFD(AVAILABLE_MEMORY, available_memory, get_available_memory_args),
    KFD(RUNTIME_ENABLE, runtime_enable, runtime_enable_args),
    KFD(DBG_TRAP, debug, dbg_trap_args),
};

#undef KFD

}  // namespace

int kfd_ioctl(unsigned long request, void* arguments) {
  for (const Entry& entry : entries) {
    // The number alone: the size of the arguments differs between versions of the header, and with an array
    // at the end (SVM).
    if (_IOC_NR(entry.request) != _IOC_NR(request)) continue;
    log(3, "ioctl %s", entry.name);
    return entry.handler(arguments);
  }
  log(1, "ioctl %#lx of /dev/kfd is not emulated", _IOC_NR(request));
  return -EINVAL;
}

}  // namespace amd_gpu
