// cuMemAlloc and kin, host memory, IPC.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "memory.h"

using namespace rig;

namespace {

CUresult allocate(CUdeviceptr* out, size_t bytes, Kind kind, unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (CUresult error = unless_capturing()) return error;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  allocation.size = bytes;
  allocation.kind = kind;
  allocation.device = context->device;
  allocation.context = context;
  allocation.flags = flags;
  if (CUresult error = Memory::instance().allocate(&allocation)) return error;
  *out = allocation.base;
  return CUDA_SUCCESS;
}

CUresult allocate_host(void** out, size_t bytes, unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (CUresult error = unless_capturing()) return error;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  size_t mapped = (bytes + 4095) & ~size_t{4095};
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  garbage(memory, std::min<size_t>(bytes, 4096), reinterpret_cast<uint64_t>(memory));
  Allocation allocation;
  allocation.base = reinterpret_cast<CUdeviceptr>(memory);
  allocation.size = bytes;
  allocation.kind = Kind::host;
  allocation.device = context->device;
  allocation.context = context;
  allocation.flags = flags;
  Memory::instance().enter(allocation);
  *out = memory;
  return CUDA_SUCCESS;
}

// What an IPC handle carries here: where another process finds the memory.
struct IpcHandle {
  pid_t pid;
  int fd;
  unsigned long long size;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle::reserved), "fits");

// Gives a live allocation's bytes a file behind them; the addresses stay.
int share(const Allocation& allocation) {
  size_t size = (allocation.size + kGranule - 1) / kGranule * kGranule;
  int fd = static_cast<int>(syscall(SYS_memfd_create, "rig-ipc", 1U /* MFD_CLOEXEC */));
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) return -1;
  void* view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (view == MAP_FAILED) return -1;
  std::memcpy(view, alias_of(allocation.base), allocation.size);
  mmap(alias_of(allocation.base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  munmap(view, size);
  return fd;
}

}  // namespace

RIG_API cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  return allocate(out, bytes, Kind::device, 0);
}

RIG_API cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned) {
  if (!pitch || !width || !height) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height, Kind::device, 0);
}

RIG_API cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return allocate(out, bytes, Kind::managed, flags);
}

// Waits for all work, as the real one does: a kernel still using the memory ends first.
RIG_API cuMemFree_v2(CUdeviceptr base) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (CUresult error = unless_capturing()) return error;
  if (!base) return CUDA_SUCCESS;
  Allocation allocation;
  Memory& memory = Memory::instance();
  if (!memory.find(base, &allocation) || allocation.base != base) return CUDA_ERROR_INVALID_VALUE;
  switch (allocation.kind) {
    case Kind::device:
    case Kind::managed:
      drain(allocation.context);
      write_printed();
      return memory.free(base, allocation.kind);
    case Kind::pooled:
      drain(context);
      return cuMemFreeAsync(base, nullptr);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

RIG_API cuMemAllocHost_v2(void** out, size_t bytes) {
  return allocate_host(out, bytes, 0);
}
RIG_API cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return allocate_host(out, bytes, flags);
}

RIG_API cuMemFreeHost(void* pointer) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  drain(context);
  Allocation was;
  if (!Memory::instance().leave(reinterpret_cast<CUdeviceptr>(pointer), Kind::host, &was))
    return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer, (was.size + 4095) & ~size_t{4095});
  return CUDA_SUCCESS;
}

RIG_API cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
  auto base = reinterpret_cast<CUdeviceptr>(pointer);
  Memory& memory = Memory::instance();
  if (in_arena(base)) return CUDA_ERROR_INVALID_VALUE;
  if (memory.find(base, nullptr) || !memory.within(base, bytes).empty())
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Allocation allocation;
  allocation.base = base;
  allocation.size = bytes;
  allocation.kind = Kind::registered;
  allocation.device = context->device;
  allocation.context = context;
  allocation.flags = flags;
  memory.enter(allocation);
  return CUDA_SUCCESS;
}
RIG_API cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

RIG_API cuMemHostUnregister(void* pointer) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  drain(context);  // as measured on the real one
  return Memory::instance().leave(reinterpret_cast<CUdeviceptr>(pointer), Kind::registered, nullptr)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

RIG_API cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned) {
  if (CUresult error = enter_without_context()) return error;
  Allocation found;
  auto address = reinterpret_cast<CUdeviceptr>(pointer);
  if (!Memory::instance().find(address, &found) || !found.is_host()) return CUDA_ERROR_INVALID_VALUE;
  *out = address;
  return CUDA_SUCCESS;
}

RIG_API cuMemHostGetFlags(unsigned* flags, void* pointer) {
  Allocation found;
  if (!Memory::instance().find(reinterpret_cast<CUdeviceptr>(pointer), &found) || !found.is_host())
    return CUDA_ERROR_INVALID_VALUE;
  *flags = found.flags;
  return CUDA_SUCCESS;
}

RIG_API cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Allocation found;
  if (!Memory::instance().find(address, &found) || found.kind != Kind::device || found.size < kSmall)
    return CUDA_ERROR_INVALID_VALUE;  // small ones share a slab: not modelled
  drain(context);
  int fd = share(found);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  IpcHandle handle{getpid(), fd, found.size};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out->reserved, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

RIG_API cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle given, unsigned) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  IpcHandle handle;
  std::memcpy(&handle, given.reserved, sizeof handle);
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  size_t size = (handle.size + kGranule - 1) / kGranule * kGranule;
  uint64_t base = Memory::instance().reserve(size, kGranule, 0);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  mmap(alias_of(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  close(fd);
  Allocation allocation;
  allocation.base = base;
  allocation.size = handle.size;
  allocation.kind = Kind::device;
  allocation.device = context->device;
  allocation.context = context;
  Memory::instance().enter(allocation);
  *out = base;
  return CUDA_SUCCESS;
}
RIG_API cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

RIG_API cuIpcCloseMemHandle(CUdeviceptr base) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  drain(context);
  return Memory::instance().free(base, Kind::device);
}

RIG_API cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) {
  return CUDA_SUCCESS;
}
RIG_API cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) {
  return CUDA_SUCCESS;
}
RIG_API cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream) {
  return CUDA_SUCCESS;
}
RIG_API cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream) {
  return CUDA_SUCCESS;
}
