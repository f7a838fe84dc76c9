// Virtual memory management: reservations, physical allocations, mappings.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "memory.h"

using namespace rig;

namespace {

// Physical memory: a file, mapped wherever it is asked for.
struct Physical {
  Magic magic = Magic::object;
  int fd = -1;
  size_t size = 0;
  CUmemAllocationProp properties = {};
  int references = 1;
};

const std::string kName = "rig-device-";

// The device that physical memory of another process is on.
int device_of_file(int fd) {
  char target[64] = "";
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  std::string name(target, length > 0 ? static_cast<size_t>(length) : 0);
  size_t at = name.find(kName);
  return at == std::string::npos ? 0 : std::atoi(name.c_str() + at + kName.size());
}

std::map<uint64_t, size_t> reservations;  // under State::mutex

bool granular(uint64_t value) {
  return value % kGranule == 0;
}

// The mapped pieces that make up exactly this range; empty: there is a gap, or a piece sticks out.
std::vector<Allocation> pieces_of(uint64_t base, size_t size) {
  std::vector<Allocation> pieces = Memory::instance().within(base, size);
  uint64_t at = base;
  for (const Allocation& piece : pieces) {
    if (piece.base != at || piece.kind != Kind::mapped) return {};
    at += piece.size;
  }
  return at == base + size ? pieces : std::vector<Allocation>();
}

void let_go(Physical* physical) {
  if (--physical->references > 0) return;
  close(physical->fd);
  Memory::instance().refund(physical->properties.location.id, physical->size);
}

Physical* physical_of(CUmemGenericAllocationHandle handle) {
  auto* physical = as<Physical>(reinterpret_cast<void*>(handle), Magic::object);
  return physical && physical->references > 0 ? physical : nullptr;
}

CUresult make_physical(CUmemGenericAllocationHandle* out, int fd, size_t size,
                       const CUmemAllocationProp& properties) {
  auto* physical = new Physical;
  physical->fd = fd;
  physical->size = size;
  physical->properties = properties;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  return CUDA_SUCCESS;
}

}  // namespace

RIG_API cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* properties,
                                      CUmemAllocationGranularity_flags) {
  if (CUresult error = enter_without_context()) return error;
  if (!out || !properties) return CUDA_ERROR_INVALID_VALUE;
  *out = kGranule;
  return CUDA_SUCCESS;
}

RIG_API cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr hint,
                            unsigned long long flags) {
  if (CUresult error = enter_without_context()) return error;
  if (!out || !size || !granular(size) || flags || (alignment & (alignment - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = Memory::instance().reserve(size, alignment, hint);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> lock(state().mutex);
  reservations[base] = size;
  *out = base;
  return CUDA_SUCCESS;
}

RIG_API cuMemAddressFree(CUdeviceptr base, size_t size) {
  if (CUresult error = enter_without_context()) return error;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    auto found = reservations.find(base);
    if (found == reservations.end() || found->second != size) return CUDA_ERROR_INVALID_VALUE;
    if (!Memory::instance().within(base, size).empty()) return CUDA_ERROR_INVALID_VALUE;
    reservations.erase(found);
  }
  Memory::instance().release(base, size);
  return CUDA_SUCCESS;
}

RIG_API cuMemCreate(CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* properties,
                    unsigned long long flags) {
  if (CUresult error = enter_without_context()) return error;
  if (!out || !properties || !size || !granular(size) || flags) return CUDA_ERROR_INVALID_VALUE;
  int device = properties->location.id;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  if (!Memory::instance().charge(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::string name = kName + std::to_string(device);  // which a process that imports it reads
  int fd = static_cast<int>(syscall(SYS_memfd_create, name.c_str(), 1U /* MFD_CLOEXEC */));
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (view != MAP_FAILED) {
    garbage(view, size, static_cast<uint64_t>(fd) + size);
    munmap(view, size);
  }
  return make_physical(out, fd, size, *properties);
}

RIG_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (CUresult error = enter_without_context()) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  Physical* physical = physical_of(handle);
  if (!physical) return CUDA_ERROR_INVALID_VALUE;
  let_go(physical);
  return CUDA_SUCCESS;
}

RIG_API cuMemMap(CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                 unsigned long long flags) {
  if (CUresult error = enter_without_context()) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  Physical* physical = physical_of(handle);
  if (!physical || flags || offset || !size || !granular(base) || !granular(size) || size > physical->size)
    return CUDA_ERROR_INVALID_VALUE;
  auto reservation = reservations.upper_bound(base);
  if (reservation == reservations.begin()) return CUDA_ERROR_INVALID_VALUE;
  --reservation;
  if (base + size > reservation->first + reservation->second) return CUDA_ERROR_INVALID_VALUE;
  if (!Memory::instance().within(base, size).empty() || Memory::instance().find(base, nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  void* got = mmap(alias_of(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->fd, 0);
  if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  ++physical->references;
  Allocation allocation;
  allocation.base = base;
  allocation.size = size;
  allocation.kind = Kind::mapped;
  allocation.device = physical->properties.location.id;
  allocation.accessible = false;
  allocation.handle = physical;
  Memory::instance().enter(allocation);
  return CUDA_SUCCESS;
}

RIG_API cuMemUnmap(CUdeviceptr base, size_t size) {
  if (CUresult error = enter_without_context()) return error;
  std::vector<Allocation> pieces = pieces_of(base, size);
  if (pieces.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (Context* context : state().primary)
    if (context) drain(context);
  std::lock_guard<std::mutex> lock(state().mutex);
  for (const Allocation& piece : pieces) {
    Memory::instance().leave(piece.base, Kind::mapped, nullptr);
    unmap_alias(piece.base, piece.size);
    let_go(static_cast<Physical*>(piece.handle));
  }
  return CUDA_SUCCESS;
}

RIG_API cuMemSetAccess(CUdeviceptr base, size_t size, const CUmemAccessDesc* access, size_t count) {
  if (CUresult error = enter_without_context()) return error;
  std::vector<Allocation> pieces = pieces_of(base, size);
  if (pieces.empty() || !access || !count) return CUDA_ERROR_INVALID_VALUE;
  for (const Allocation& piece : pieces)
    Memory::instance().update(piece.base, [&](Allocation& a) {
      for (size_t i = 0; i < count; ++i) {
        uint64_t device = 1ull << access[i].location.id;
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
          a.devices |= device;
        else
          a.devices &= ~device;
      }
      a.accessible = a.devices != 0;
    });
  return CUDA_SUCCESS;
}

RIG_API cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  Allocation found;
  if (!Memory::instance().find(address, &found) || found.kind != Kind::mapped)
    return CUDA_ERROR_INVALID_VALUE;
  bool accessible = (found.devices >> location->id & 1) != 0;
  *flags = accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

RIG_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  Allocation found;
  if (!Memory::instance().find(reinterpret_cast<CUdeviceptr>(address), &found) || found.kind != Kind::mapped)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  ++static_cast<Physical*>(found.handle)->references;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(found.handle);
  return CUDA_SUCCESS;
}

RIG_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                               CUmemGenericAllocationHandle handle) {
  Physical* physical = physical_of(handle);
  if (!physical) return CUDA_ERROR_INVALID_VALUE;
  *out = physical->properties;
  return CUDA_SUCCESS;
}

RIG_API cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                     CUmemAllocationHandleType type, unsigned long long) {
  Physical* physical = physical_of(handle);
  if (!physical || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  int fd = dup(physical->fd);
  std::memcpy(out, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

RIG_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                       CUmemAllocationHandleType type) {
  if (CUresult error = enter_without_context()) return error;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  int fd = dup(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)));
  off_t size = lseek(fd, 0, SEEK_END);
  if (fd < 0 || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_of_file(fd);
  return make_physical(out, fd, static_cast<size_t>(size), properties);
}
