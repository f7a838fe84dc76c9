// Devices, their attributes, names of errors.
#include <cstdio>
#include <cstring>

#include "memory.h"

using namespace rig;

namespace {

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};

#define RIG_ERROR(code, text) {code, #code, text}
const ErrorText kErrors[] = {
    RIG_ERROR(CUDA_SUCCESS, "no error"),
    RIG_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    RIG_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    RIG_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    RIG_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    RIG_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    RIG_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    RIG_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    RIG_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    RIG_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    RIG_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    RIG_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    RIG_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    RIG_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    RIG_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    RIG_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    RIG_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    RIG_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    RIG_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    RIG_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    RIG_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the memory was already registered"),
    RIG_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
              "pointer does not correspond to a registered memory region"),
    RIG_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    RIG_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    RIG_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    RIG_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    RIG_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              "operation failed due to a previous error during capture"),
    RIG_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    RIG_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    RIG_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
              "operation would make the legacy stream depend on a capture"),
    RIG_ERROR(CUDA_ERROR_CAPTURED_EVENT,
              "operation not permitted on an event last recorded in a capturing stream"),
    RIG_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "capture was ended in another thread"),
    RIG_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed"),
    RIG_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef RIG_ERROR

const ErrorText* text_of(CUresult code) {
  for (const ErrorText& error : kErrors)
    if (error.code == code) return &error;
  return nullptr;
}

// What a Hopper device answers; what is not here is 0.
const std::pair<CUdevice_attribute, int> kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
    // Small: who times a launch empties the cache before each run, which is the host's work here.
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1048576},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 524288},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
};

bool is_device(CUdevice device) {
  return device >= 0 && device < state().devices;
}

}  // namespace

RIG_API cuGetErrorName(CUresult code, const char** out) {
  const ErrorText* error = text_of(code);
  *out = error ? error->name : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RIG_API cuGetErrorString(CUresult code, const char** out) {
  const ErrorText* error = text_of(code);
  *out = error ? error->text : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RIG_API cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetCount(int* count) {
  if (CUresult error = enter_without_context()) return error;
  *count = state().devices;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGet(CUdevice* device, int ordinal) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetName(char* name, int length, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "kerncap stand-in device");
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 0, sizeof *uuid);
  std::memcpy(uuid->bytes, "kerncap-rig", 11);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
RIG_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}

RIG_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = static_cast<size_t>(faults().device_bytes.load());
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) *value = device;
  if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *value = static_cast<int>(faults().processors);
  if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED) *value = static_cast<int>(faults().mps);
  for (const auto& [known, answer] : kAttributes)
    if (known == attribute) *value = answer;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<size_t>(length), "0000:01:%02X.0", device);
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  if (CUresult error = enter_without_context()) return error;
  unsigned bus = 0, slot = 0;
  if (std::sscanf(text, "0000:%x:%x.0", &bus, &slot) != 2 || !is_device(static_cast<int>(slot)))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = static_cast<int>(slot);
  return CUDA_SUCCESS;
}

RIG_API cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (CUresult error = enter_without_context()) return error;
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute, CUdevice, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}

RIG_API cuDeviceGetExecAffinitySupport(int* value, CUexecAffinityType, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}

RIG_API cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  auto all = static_cast<size_t>(faults().device_bytes.load());
  size_t used = Memory::instance().used(context->device);
  if (total) *total = all;
  if (free_bytes) *free_bytes = used < all ? all - used : 0;
  return CUDA_SUCCESS;
}
