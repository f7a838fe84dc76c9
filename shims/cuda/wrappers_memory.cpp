// What the target allocates and frees, told to the memory map. An allocation is added after the
// driver made it and taken out before the driver frees it: its address may be another's at once.
#include <map>
#include <mutex>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/memory_map.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/interpose.h"
#include "cuda/registry.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {
namespace {

void add(uint64_t base, size_t size, RegionKind kind, int device, const char* how) noexcept {
  if (base == 0 || size == 0) return;
  capture::memory_comes();
  Allocation allocation;
  allocation.base = base;
  allocation.size = size;
  allocation.kind = kind;
  allocation.device = device;
  allocation.how = how;
  MemoryMap::instance().add(allocation);
}

// Of memory that may belong to another device than the current one.
int device_of_pointer(CUdeviceptr pointer) noexcept {
  gate::Own own;
  int ordinal = -1;
  const Driver* real = driver();
  if (real->cuPointerGetAttribute != nullptr &&
      real->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) == CUDA_SUCCESS)
    return ordinal;
  return current_device();
}

size_t size_of_pointer(CUdeviceptr pointer) noexcept {
  gate::Own own;
  CUdeviceptr base = 0;
  size_t size = 0;
  const Driver* real = driver();
  if (real->cuMemGetAddressRange_v2 == nullptr ||
      real->cuMemGetAddressRange_v2(&base, &size, pointer) != CUDA_SUCCESS)
    return 0;
  return static_cast<size_t>(base + size - pointer);
}

// Calls the driver's free with the allocation out of the map already; puts it back if it was refused.
template <typename Call>
CUresult free_gated(uint64_t base, Call&& call) noexcept {
  gate::Pass pass;
  MemoryMap& map = MemoryMap::instance();
  Allocation known;
  bool removed = map.find(base, &known) && known.base == base && map.remove(base);
  CUresult result = call();
  if (result != CUDA_SUCCESS && removed) map.add(known);
  return stream_order::noted(result, stream_order::Call::unknown, CUevent{});  // the host may have waited
}

// Registered memory that the device sees at another address than the host.
struct Aliases {
  std::mutex mutex;
  std::map<const void*, uint64_t> device_address;
};

Aliases& aliases() noexcept {
  static auto* instance = new Aliases;
  return *instance;
}

void add_host(void* pointer, size_t size, const char* how) noexcept {
  auto base = reinterpret_cast<uint64_t>(pointer);
  add(base, size, RegionKind::host, -1, how);
  gate::Own own;
  CUdeviceptr seen = 0;
  const Driver* real = driver();
  if (real->cuMemHostGetDevicePointer_v2 == nullptr ||
      real->cuMemHostGetDevicePointer_v2(&seen, pointer, 0) != CUDA_SUCCESS || seen == base || seen == 0)
    return;
  add(seen, size, RegionKind::host, -1, how);
  Aliases& all = aliases();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.device_address[pointer] = seen;
}

// A device's registers: to read or write them does something.
bool is_io(unsigned int flags) noexcept {
  return (flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0;
}

template <typename Call>
CUresult free_host(void* pointer, Call&& call) noexcept {
  await_stopped_graphs();
  uint64_t alias = 0;
  {
    Aliases& all = aliases();
    std::lock_guard<std::mutex> lock(all.mutex);
    auto found = all.device_address.find(pointer);
    if (found != all.device_address.end()) alias = found->second;
  }
  CUresult result = free_gated(reinterpret_cast<uint64_t>(pointer), call);
  if (result != CUDA_SUCCESS || alias == 0) return result;
  MemoryMap::instance().remove(alias);
  Aliases& all = aliases();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.device_address.erase(pointer);
  return result;
}

// Inside a capture an allocation is a node of the graph, and a free too: nothing happens now. Else the driver
// may have the stream wait for another one, whose memory it gives out again.
CUresult allocated_async(CUresult result, const CUdeviceptr* pointer, size_t size, CUstream stream,
                         bool per_thread, const char* how) noexcept {
  stream_order::noted(result, stream_order::Call::unknown, stream, per_thread);
  if (result == CUDA_SUCCESS && pointer != nullptr && !captures_now(stream, per_thread))
    add(*pointer, size, RegionKind::device, device_of_pointer(*pointer), how);
  return result;
}

template <typename Call>
CUresult free_async(CUdeviceptr pointer, CUstream stream, bool per_thread, Call&& call) noexcept {
  if (!captures_now(stream, per_thread)) return free_gated(pointer, call);
  gate::Pass pass;
  return call();
}

// It is in the current device's address space, whichever device it is on.
CUresult imported(CUresult result, const CUdeviceptr* pointer, const char* how) noexcept {
  if (result != CUDA_SUCCESS || pointer == nullptr) return result;
  Allocation allocation;
  allocation.base = *pointer;
  allocation.size = size_of_pointer(*pointer);
  allocation.device = current_device();
  allocation.how = how;
  allocation.shared = Shared::imported;
  allocation.owner = device_of_pointer(*pointer);
  MemoryMap::instance().add(allocation);
  return result;
}

// Physical memory that others have, too, by its handle here. One that was released may be given again, to
// memory of this process's own: cuMemCreate.
struct SharedHandles {
  std::mutex mutex;
  std::map<CUmemGenericAllocationHandle, Shared> by_handle;
};

SharedHandles& shared_handles() noexcept {
  static auto* instance = new SharedHandles;
  return *instance;
}

void note_handle(CUmemGenericAllocationHandle handle, Shared shared) noexcept {
  SharedHandles& all = shared_handles();
  try {
    std::lock_guard<std::mutex> lock(all.mutex);
    if (shared == Shared::no)
      all.by_handle.erase(handle);
    else
      all.by_handle[handle] = shared;
  } catch (const std::bad_alloc&) {
    // Taken for this process's own, then.
  }
}

Shared shared_by_handle(CUmemGenericAllocationHandle handle) noexcept {
  SharedHandles& all = shared_handles();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.by_handle.find(handle);
  return found != all.by_handle.end() ? found->second : Shared::no;
}

// Where the physical memory of a mapping lies: a device, or the host.
int device_of_handle(CUmemGenericAllocationHandle handle, RegionKind* kind) noexcept {
  gate::Own own;
  CUmemAllocationProp properties = {};
  const Driver* real = driver();
  *kind = RegionKind::device;
  if (real->cuMemGetAllocationPropertiesFromHandle == nullptr ||
      real->cuMemGetAllocationPropertiesFromHandle(&properties, handle) != CUDA_SUCCESS)
    return current_device();
  if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) return properties.location.id;
  *kind = RegionKind::host;
  return -1;
}

}  // namespace

CUresult wrap::cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) noexcept {
  CUresult result = driver()->cuMemAlloc_v2(dptr, bytesize);
  if (result == CUDA_SUCCESS && dptr != nullptr)
    add(*dptr, bytesize, RegionKind::device, current_device(), "cuMemAlloc_v2");
  return result;
}

CUresult wrap::cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                  unsigned int ElementSizeBytes) noexcept {
  CUresult result = driver()->cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
  if (result == CUDA_SUCCESS && dptr != nullptr && pPitch != nullptr)
    add(*dptr, *pPitch * Height, RegionKind::device, current_device(), "cuMemAllocPitch_v2");
  return result;
}

CUresult wrap::cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) noexcept {
  CUresult result = driver()->cuMemAllocManaged(dptr, bytesize, flags);
  if (result == CUDA_SUCCESS && dptr != nullptr)
    add(*dptr, bytesize, RegionKind::managed, current_device(), "cuMemAllocManaged");
  return result;
}

CUresult wrap::cuMemFree_v2(CUdeviceptr dptr) noexcept {
  await_stopped_graphs();
  return free_gated(dptr, [&] { return driver()->cuMemFree_v2(dptr); });
}

CUresult wrap::cuMemAllocHost_v2(void** pp, size_t bytesize) noexcept {
  CUresult result = driver()->cuMemAllocHost_v2(pp, bytesize);
  if (result == CUDA_SUCCESS && pp != nullptr) add_host(*pp, bytesize, "cuMemAllocHost_v2");
  return result;
}

CUresult wrap::cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) noexcept {
  CUresult result = driver()->cuMemHostAlloc(pp, bytesize, Flags);
  if (result == CUDA_SUCCESS && pp != nullptr) add_host(*pp, bytesize, "cuMemHostAlloc");
  return result;
}

CUresult wrap::cuMemFreeHost(void* p) noexcept {
  return free_host(p, [&] { return driver()->cuMemFreeHost(p); });
}

CUresult wrap::cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) noexcept {
  CUresult result = driver()->cuMemHostRegister(p, bytesize, Flags);
  if (result == CUDA_SUCCESS && !is_io(Flags)) add_host(p, bytesize, "cuMemHostRegister");
  return result;
}

CUresult wrap::cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) noexcept {
  CUresult result = driver()->cuMemHostRegister_v2(p, bytesize, Flags);
  if (result == CUDA_SUCCESS && !is_io(Flags)) add_host(p, bytesize, "cuMemHostRegister_v2");
  return result;
}

CUresult wrap::cuMemHostUnregister(void* p) noexcept {
  return free_host(p, [&] { return driver()->cuMemHostUnregister(p); });
}

CUresult wrap::cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) noexcept {
  return allocated_async(driver()->cuMemAllocAsync(dptr, bytesize, hStream), dptr, bytesize, hStream, false,
                         "cuMemAllocAsync");
}

CUresult wrap::cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) noexcept {
  return allocated_async(driver()->cuMemAllocAsync_ptsz(dptr, bytesize, hStream), dptr, bytesize, hStream,
                         true, "cuMemAllocAsync");
}

CUresult wrap::cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                       CUstream hStream) noexcept {
  return allocated_async(driver()->cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream), dptr, bytesize,
                         hStream, false, "cuMemAllocFromPoolAsync");
}

CUresult wrap::cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                            CUstream hStream) noexcept {
  return allocated_async(driver()->cuMemAllocFromPoolAsync_ptsz(dptr, bytesize, pool, hStream), dptr,
                         bytesize, hStream, true, "cuMemAllocFromPoolAsync");
}

CUresult wrap::cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) noexcept {
  return free_async(dptr, hStream, false, [&] { return driver()->cuMemFreeAsync(dptr, hStream); });
}

CUresult wrap::cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) noexcept {
  return free_async(dptr, hStream, true, [&] { return driver()->cuMemFreeAsync_ptsz(dptr, hStream); });
}

CUresult wrap::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                           unsigned long long flags) noexcept {
  CUresult result = driver()->cuMemCreate(handle, size, prop, flags);
  if (result == CUDA_SUCCESS && handle != nullptr) note_handle(*handle, Shared::no);
  return result;
}

CUresult wrap::cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) noexcept {
  CUresult result = driver()->cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags);
  if (result == CUDA_SUCCESS && shared_by_handle(handle) == Shared::no) {
    note_handle(handle, Shared::exported);
    MemoryMap::instance().exported(0, handle);
  }
  return result;
}

CUresult wrap::cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                              CUmemAllocationHandleType shHandleType) noexcept {
  CUresult result = driver()->cuMemImportFromShareableHandle(handle, osHandle, shHandleType);
  if (result == CUDA_SUCCESS && handle != nullptr) note_handle(*handle, Shared::imported);
  return result;
}

CUresult wrap::cuMulticastCreate(CUmemGenericAllocationHandle* mcHandle,
                                 const CUmulticastObjectProp* prop) noexcept {
  CUresult result = driver()->cuMulticastCreate(mcHandle, prop);
  if (result == CUDA_SUCCESS && mcHandle != nullptr) note_handle(*mcHandle, Shared::multicast);
  return result;
}

// Each process adds its own device to an object, also to one that it imported.
CUresult wrap::cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) noexcept {
  CUresult result = driver()->cuMulticastAddDevice(mcHandle, dev);
  if (result == CUDA_SUCCESS) note_handle(mcHandle, Shared::multicast);
  return result;
}

CUresult wrap::cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                        unsigned long long flags) noexcept {
  CUresult result = driver()->cuMemMap(ptr, size, offset, handle, flags);
  if (result != CUDA_SUCCESS) return result;
  Allocation allocation;
  allocation.base = ptr;
  allocation.size = size;
  allocation.how = "cuMemMap";
  allocation.handle = handle;
  allocation.shared = shared_by_handle(handle);
  // Nothing is asked about a multicast object: it is on no device.
  allocation.device =
      allocation.shared == Shared::multicast ? current_device() : device_of_handle(handle, &allocation.kind);
  if (allocation.shared == Shared::imported) allocation.owner = allocation.device;
  MemoryMap::instance().add(allocation);
  return result;
}

CUresult wrap::cuMemUnmap(CUdeviceptr ptr, size_t size) noexcept {
  gate::Pass pass;
  MemoryMap& map = MemoryMap::instance();
  Allocation known;
  bool found = map.find(ptr, &known);
  map.remove_range(ptr, size);
  CUresult result = driver()->cuMemUnmap(ptr, size);
  if (result != CUDA_SUCCESS && found) map.add(known);
  return result;
}

CUresult wrap::cuMemAddressFree(CUdeviceptr ptr, size_t size) noexcept {
  gate::Pass pass;
  CUresult result = driver()->cuMemAddressFree(ptr, size);
  // Only what is not mapped can be given back; a piece that the map still holds is there by a miss.
  if (result == CUDA_SUCCESS) MemoryMap::instance().remove_range(ptr, size);
  return result;
}

CUresult wrap::cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) noexcept {
  CUresult result = driver()->cuIpcGetMemHandle(pHandle, dptr);
  if (result == CUDA_SUCCESS) MemoryMap::instance().exported(dptr, 0);
  return result;
}

CUresult wrap::cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) noexcept {
  return imported(driver()->cuIpcOpenMemHandle(pdptr, handle, Flags), pdptr, "cuIpcOpenMemHandle");
}

CUresult wrap::cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) noexcept {
  return imported(driver()->cuIpcOpenMemHandle_v2(pdptr, handle, Flags), pdptr, "cuIpcOpenMemHandle_v2");
}

CUresult wrap::cuIpcCloseMemHandle(CUdeviceptr dptr) noexcept {
  return free_gated(dptr, [&] { return driver()->cuIpcCloseMemHandle(dptr); });
}

CUresult wrap::cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) noexcept {
  CUresult result = driver()->cuMemPoolExportPointer(shareData_out, ptr);
  if (result == CUDA_SUCCESS) MemoryMap::instance().exported(ptr, 0);
  return result;
}

CUresult wrap::cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                      CUmemPoolPtrExportData* shareData) noexcept {
  return imported(driver()->cuMemPoolImportPointer(ptr_out, pool, shareData), ptr_out,
                  "cuMemPoolImportPointer");
}

CUresult wrap::cuExternalMemoryGetMappedBuffer(CUdeviceptr* devPtr, CUexternalMemory extMem,
                                               const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* bufferDesc) noexcept {
  CUresult result = driver()->cuExternalMemoryGetMappedBuffer(devPtr, extMem, bufferDesc);
  if (result == CUDA_SUCCESS && devPtr != nullptr && bufferDesc != nullptr)
    add(*devPtr, bufferDesc->size, RegionKind::device, current_device(), "cuExternalMemoryGetMappedBuffer");
  return result;
}

}  // namespace kerncap::cuda
