// Memory of a rank that others import: "vmm" (a descriptor) or "ipc" is how it comes over.
#ifndef KERNCAP_TESTS_SHARED_WINDOW_H
#define KERNCAP_TESTS_SHARED_WINDOW_H

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "client.h"

constexpr size_t granule = 2u << 20;

struct WindowHandle {
  pid_t pid;
  int fd;
  CUipcMemHandle ipc;
};

inline void expect(bool is_good) {
  if (!is_good) std::exit(71);
}

inline CUdeviceptr map_window(CUmemGenericAllocationHandle handle, int device) {
  CUdeviceptr base;
  CHECK(cuMemAddressReserve(&base, granule, 0, 0, 0));
  CHECK(cuMemMap(base, granule, 0, handle, 0));
  CUmemAccessDesc access = {};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(base, granule, &access, 1));
  CHECK(cuMemRelease(handle));
  return base;
}

// `granule` bytes of zeros on the device that is current, and what others import them by.
inline CUdeviceptr make_window(const std::string& way, int device, WindowHandle* out) {
  out->pid = getpid();
  CUdeviceptr window;
  if (way == "vmm") {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, granule, &properties, 0));
    CHECK(cuMemExportToShareableHandle(&out->fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    window = map_window(handle, device);
  } else {
    window = allocate(granule);
    CHECK(cuIpcGetMemHandle(&out->ipc, window));
  }
  CHECK(cuMemsetD8(window, 0, granule));
  return window;
}

inline CUdeviceptr import_window(const std::string& way, int device, const WindowHandle& owner) {
  if (way == "ipc") {
    CUdeviceptr window;
    CHECK(cuIpcOpenMemHandle(&window, owner.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return window;
  }
  // As a Unix socket would hand it over.
  std::string path = "/proc/" + std::to_string(owner.pid) + "/fd/" + std::to_string(owner.fd);
  int fd = open(path.c_str(), O_RDWR);
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  return map_window(handle, device);
}

#endif  // KERNCAP_TESTS_SHARED_WINDOW_H
