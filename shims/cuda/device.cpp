#include "common/glibc_floor.h"

#include "cuda/device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/clock.h"
#include "common/gate.h"
#include "common/python_stack.h"
#include "common/readable.h"
#include "common/text.h"
#include "cuda/activity.h"
#include "cuda/graphs.h"
#include "cuda/images.h"
#include "cuda/printed.h"
#include "cuda/registry_textures.h"
#include "cuda/torch_mirror.h"

namespace kerncap {

Device* device() noexcept {
  return &cuda::cuda_device();
}
const char* shim_name() noexcept {
  return word::shim::cuda;
}

bool is_fault(int status) noexcept {
  switch (status) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return status == 721 || status == 226;  // newer than our oldest cuda.h: tensor memory leak, contained
  }
}

namespace cuda {
namespace {

constexpr uint64_t mirror_deadline_ns = 100000000;

struct ThreadState {
  unsigned entered = 0;
  bool pushed = false, exchanged = false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  alignas(gate::Own) unsigned char own[sizeof(gate::Own)];
};
thread_local ThreadState here;
thread_local int last_status = 0;

int attribute(const Driver& d, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  if (d.cuDeviceGetAttribute != nullptr) d.cuDeviceGetAttribute(&value, which, device);
  return value;
}

}  // namespace

CudaDevice& cuda_device() noexcept {
  alignas(CudaDevice) static char storage[sizeof(CudaDevice)];
  static CudaDevice* made = new (storage) CudaDevice;  // never destroyed: threads launch until the end
  return *made;
}

bool CudaDevice::good(CUresult status) noexcept {
  if (status != CUDA_SUCCESS) last_status = static_cast<int>(status);
  return status == CUDA_SUCCESS;
}

int CudaDevice::status() const noexcept {
  return last_status;
}

std::string CudaDevice::error_text(int status) {
  const Driver* d = driver();
  const char *name = nullptr, *text = nullptr;
  auto code = static_cast<CUresult>(status);
  gate::Own own;
  if (d != nullptr && d->cuGetErrorName != nullptr) d->cuGetErrorName(code, &name);
  if (d != nullptr && d->cuGetErrorString != nullptr) d->cuGetErrorString(code, &text);
  std::string result = (name != nullptr ? name : "CUDA error") + (" (" + std::to_string(status)) + ")";
  return text != nullptr ? result + ": " + text : result;
}

bool CudaDevice::is_capturing() {
  return cuda::is_capturing();
}

bool CudaDevice::enter(const Launch& launch, std::string* why) {
  const Driver* d = driver();
  if (d == nullptr) {
    *why = "the CUDA driver is not loaded";
    return false;
  }
  if (here.entered++ != 0) return true;
  new (here.own) gate::Own;
  // What we call must not break a capture that another thread has begun.
  here.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  here.exchanged = d->cuThreadExchangeStreamCaptureMode != nullptr &&
                   good(d->cuThreadExchangeStreamCaptureMode(&here.mode));
  auto context = static_cast<CUcontext>(launch.context);
  if (context == nullptr && d->cuCtxGetCurrent != nullptr) d->cuCtxGetCurrent(&context);
  here.pushed = context != nullptr && good(d->cuCtxPushCurrent_v2(context));
  if (!here.pushed) {
    leave();
    *why = "the launch's context can't be made current: " + error_text(last_status);
    return false;
  }
  if (gate::is_mine()) {
    launch_device_ = launch.device;
    is_stopped_ = launch.stopped != nullptr;
    launch_context_ = context;
  }
  return true;
}

void CudaDevice::leave() noexcept {
  if (here.entered == 0 || --here.entered != 0) return;
  const Driver* d = driver();
  CUcontext popped;
  if (here.pushed) d->cuCtxPopCurrent_v2(&popped);
  if (here.exchanged) d->cuThreadExchangeStreamCaptureMode(&here.mode);
  here.pushed = here.exchanged = false;
  reinterpret_cast<gate::Own*>(here.own)->~Own();
}

DeviceFacts CudaDevice::describe(int ordinal) {
  const Driver& d = *driver();
  DeviceFacts facts;
  facts.kind = word::device_kind::cuda;
  facts.ordinal = ordinal;
  CUdevice device = 0;
  char name[256] = "";
  size_t bytes = 0;
  int version = 0;
  if (d.cuDeviceGet != nullptr) d.cuDeviceGet(&device, ordinal);
  if (d.cuDeviceGetName != nullptr) d.cuDeviceGetName(name, sizeof name - 1, device);
  if (d.cuDeviceTotalMem_v2 != nullptr) d.cuDeviceTotalMem_v2(&bytes, device);
  if (d.cuDriverGetVersion != nullptr) d.cuDriverGetVersion(&version);
  int major = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  int minor = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  facts.name = name;
  facts.arch = "sm_" + std::to_string(major) + std::to_string(minor);
  facts.memory_bytes = bytes;
  facts.driver = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  return facts;
}

Limits CudaDevice::limits() {
  const Driver& d = *driver();
  auto limit = [&](CUlimit which) {
    size_t value = 0;
    return d.cuCtxGetLimit != nullptr && d.cuCtxGetLimit(&value, which) == CUDA_SUCCESS ? value : 0;
  };
  return {limit(CU_LIMIT_STACK_SIZE), limit(CU_LIMIT_MALLOC_HEAP_SIZE), limit(CU_LIMIT_PRINTF_FIFO_SIZE),
          limit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT)};
}

// No call tells, but the heap's size can't be set any more, not even to what it is.
bool CudaDevice::heap_in_use() {
  const Driver& d = *driver();
  size_t size = 0;
  return d.cuCtxGetLimit != nullptr && d.cuCtxSetLimit != nullptr &&
         d.cuCtxGetLimit(&size, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_SUCCESS &&
         d.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, size) == CUDA_ERROR_INVALID_VALUE;
}

std::string CudaDevice::stream_text(void* stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return "the default stream";
  if (stream == CU_STREAM_PER_THREAD) return "the thread's default stream";
  return "stream " + address_text(reinterpret_cast<uintptr_t>(stream));
}

std::vector<Allocation> CudaDevice::globals(const Launch& launch, const std::vector<std::string>& names) {
  std::vector<Allocation> all;
  const Module* module = launch.kernel->module;
  if (module == nullptr || module->gone.load()) return all;
  for (const Global& global : globals_of(*module, names)) {
    if (global.size == 0) continue;
    Allocation allocation;
    allocation.base = global.address;
    allocation.size = global.size;
    allocation.kind = RegionKind::global;
    allocation.device = launch.device;
    allocation.name = global.name;
    allocation.module = module;
    all.push_back(allocation);
  }
  return all;
}

bool CudaDevice::is_readable(const Allocation& allocation) {
  const Driver& d = *driver();
  if (allocation.kind == RegionKind::host) return is_readable_here(allocation.base, allocation.size);
  if (lane(allocation.device) == nullptr) return false;
  if (std::strcmp(allocation.how, graph_memory) == 0) return true;  // it is there as long as it is listed
  CUdeviceptr base = 0;
  size_t size = 0;
  if (d.cuMemGetAddressRange_v2 != nullptr) {
    CUresult status = d.cuMemGetAddressRange_v2(&base, &size, allocation.base);
    if (status != CUDA_SUCCESS || base + size < allocation.base + allocation.size) return false;
  }
  if (std::strcmp(allocation.how, "cuMemMap") != 0 || d.cuMemGetAccess == nullptr) return true;
  // Mapped is not yet accessible: cuMemSetAccess may not have come, or taken it away again.
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = allocation.device;
  unsigned long long flags = 0;
  return d.cuMemGetAccess(&flags, &location, allocation.base) == CUDA_SUCCESS && flags != 0;
}

void CudaDevice::unseen(std::string* note) {
  if (size_t count = texture_references(); count != 0)
    *note =
        std::to_string(count) +
        " texture or surface references of modules were in use: what a kernel reads through them is not in "
        "a reproducer";
}

void CudaDevice::finish_stopped() noexcept {
  finish_stopped_graphs();
}

std::vector<uint64_t> CudaDevice::mirror_blocks() {
  // The hook's thread can't answer while this one has Python's lock.
  return torch_mirror::blocks(has_interpreter_lock() ? 0 : mirror_deadline_ns);
}

std::string CudaDevice::program_of(const Image& image) {
  RuntimeProgram program;
  return cuda::program_of(image, &program) ? json_of(program) : std::string();
}

// --- lanes ---------------------------------------------------------------------------------------

CUcontext CudaDevice::context_of(int device) {
  if (device == launch_device_) return launch_context_;
  for (const ContextEntry& entry : contexts())
    if (entry.device == device) return entry.context;
  return nullptr;
}

bool CudaDevice::prepare(std::string* why) {
  const Driver& d = *driver();
  Lane* own = lane(launch_device_);
  if (own == nullptr) {
    *why = "no stream of our own can be made: " + error_text(last_status);
    return false;
  }
  // A reset of its device freed the ring, though the context that came next has the same handle.
  if (ring_ != nullptr && context_serial(ring_context_) == ring_serial_) return true;
  ring_ = nullptr;
  void* memory = nullptr;
  // Portable: every context copies into the same ring.
  if (!good(d.cuMemHostAlloc(&memory, ring_buffers * buffer_bytes, CU_MEMHOSTALLOC_PORTABLE))) {
    *why = "pinned memory for copying: " + error_text(last_status);
    return false;
  }
  ring_ = static_cast<uint8_t*>(memory);
  ring_context_ = launch_context_;
  ring_serial_ = context_serial(launch_context_);
  slot_device_.assign(ring_buffers, 0);
  return true;
}

Lane* CudaDevice::lane(int device) {
  CUcontext context = context_of(device);
  if (context == nullptr) return nullptr;
  Lane& found = lanes_[device];
  if (found.context == context && found.serial == context_serial(context)) {
    // A reset device may come back with the same handle, and none of our streams.
    InContext in(context);
    CUresult status = driver()->cuStreamQuery(found.stream);
    if (status == CUDA_SUCCESS || status == CUDA_ERROR_NOT_READY || is_fault(static_cast<int>(status)))
      return &found;
  }
  found = Lane();
  return make_lane(found, context) ? &found : nullptr;
}

bool CudaDevice::make_lane(Lane& lane, CUcontext context) {
  const Driver& d = *driver();
  InContext in(context);
  bool made = good(d.cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING));
  lane.slot_events.assign(ring_buffers, nullptr);
  for (CUevent& event : lane.slot_events)
    made = made && good(d.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  made = made && good(d.cuEventCreate(&lane.done, CU_EVENT_DISABLE_TIMING));
  if (made) {
    lane.context = context;
    lane.serial = context_serial(context);
  }
  return made;
}

void CudaDevice::reset_after_fork() noexcept {
  // A context does not survive a fork: nothing of ours is to be given back.
  ring_ = nullptr;
  ring_context_ = nullptr;
  lanes_.clear();
  busy_.clear();
  spare_.clear();
  clone_sizes_.clear();
  here.entered = 0;
  activity::forget_after_fork();
  torch_mirror::reset_after_fork();
  printed::reset_after_fork();
}

}  // namespace cuda
}  // namespace kerncap
