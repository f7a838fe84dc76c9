// The functions of libc through which a process reaches the driver: opening its devices and sysfs files,
// ioctl, mmap and munmap. This code runs in every process under `run`, from its first moments on: with
// nothing of ours in use each function is the plain system call, and none allocates before it has seen one of
// our paths.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "driver.h"
#include "files.h"
#include "ioctls.h"

namespace amd_gpu {
namespace {

constexpr char kfd_path[] = "/dev/kfd", render_path[] = "/dev/dri/renderD";
constexpr unsigned first_render_minor = 128;
constexpr int not_ours = -2;

bool starts_with(const char* text, const char* prefix) {
  return text != nullptr && std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

bool is_kfd(const char* path) {
  return path != nullptr && std::strcmp(path, kfd_path) == 0;
}

// The device behind a path; null: there is none of that number.
Device* render_device(const char* path) {
  const unsigned long minor = std::strtoul(path + std::strlen(render_path), nullptr, 10);
  const auto& devices = driver().devices;
  return minor < first_render_minor || minor - first_render_minor >= devices.size()
             ? nullptr
             : devices[minor - first_render_minor].get();
}

// The device whose memory file that is.
Device* device_of(unsigned long inode) {
  for (const auto& device : driver().devices) {
    struct stat status{};
    if (fstat(device->memory.file(), &status) == 0 && status.st_ino == inode) return device.get();
  }
  return nullptr;
}

int opened(int file) {
  const int descriptor = files::duplicate(file);
  return descriptor < 0 ? -1 : descriptor;
}

int open_device(const char* path) {
  if (is_kfd(path)) return opened(driver().doorbells.file());
  if (!starts_with(path, render_path)) return not_ours;
  if (const Device* device = render_device(path)) return opened(device->memory.file());
  errno = ENOENT;
  return -1;
}

// A path into our topology for one into the kernel's. `place` keeps the text.
const char* redirect(const char* path, std::string& place) {
  static constexpr struct {
    const char* prefix;
    const char* folder;
  } trees[] = {
      {"/sys/devices/virtual/kfd/", "/"}, {"/sys/class/kfd/", "/"}, {"/sys/module/amdgpu/", "/amdgpu/"}};
  for (const auto& tree : trees) {
    if (!starts_with(path, tree.prefix)) continue;
    place = driver().sysfs + tree.folder + (path + std::strlen(tree.prefix));
    return place.c_str();
  }
  return path;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int open_file(const char* path, int flags, mode_t mode) {
  const int device = open_device(path);
  if (device != not_ours) return device;
  std::string place;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, redirect(path, place), flags, mode));
}

// /proc/self/maps with our files under the devices' names, and without our own view of them. Null for another
// path, and for a process that has no device.
FILE* open_maps(const char* path) {
  if (path == nullptr || std::strcmp(path, "/proc/self/maps") != 0 || !has_driver()) return nullptr;
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  FILE* const maps = real(path, "r");
  if (maps == nullptr) return nullptr;
  const int file = memfd_create("maps", MFD_CLOEXEC);
  FILE* const shown = file < 0 ? nullptr : fdopen(file, "w+");
  char* line = nullptr;
  size_t room = 0;
  while (shown != nullptr && getline(&line, &room, maps) > 0) {
    unsigned long start = 0, inode = 0;
    int name = 0;
    const bool is_whole = std::sscanf(line, "%lx-%*x %*s %*x %*s %lu %n", &start, &inode, &name) == 2;
    const Device* const device = is_whole ? device_of(inode) : nullptr;
    if (device != nullptr && device->memory.is_view(start)) continue;
    if (device != nullptr) {
      std::fprintf(shown, "%.*s%s%u\n", name, line, render_path, first_render_minor + device->ordinal);
    } else {
      std::fputs(line, shown);
    }
  }
  std::free(line);
  std::fclose(maps);
  if (shown != nullptr) std::rewind(shown);
  return shown;
}

mode_t mode_argument(int flags, va_list arguments) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace amd_gpu

using amd_gpu::next;
using amd_gpu::redirect;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = amd_gpu::mode_argument(flags, arguments);
  va_end(arguments);
  return amd_gpu::open_file(path, flags, mode);
}

EXPORT int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = amd_gpu::mode_argument(flags, arguments);
  va_end(arguments);
  return amd_gpu::open_file(path, flags, mode);
}

EXPORT FILE* fopen(const char* path, const char* mode) {
  if (FILE* maps = amd_gpu::open_maps(path)) return maps;
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  std::string place;
  return real(redirect(path, place), mode);
}

EXPORT FILE* fopen64(const char* path, const char* mode) {
  if (FILE* maps = amd_gpu::open_maps(path)) return maps;
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
  std::string place;
  return real(redirect(path, place), mode);
}

EXPORT DIR* opendir(const char* path) {
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  std::string place;
  return real(redirect(path, place));
}

EXPORT int access(const char* path, int mode) {
  if (amd_gpu::is_kfd(path)) return 0;
  if (amd_gpu::starts_with(path, amd_gpu::render_path) && amd_gpu::render_device(path) != nullptr) return 0;
  std::string place;
  return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, redirect(path, place), mode));
}

EXPORT int ioctl(int descriptor, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* const arguments = va_arg(list, void*);
  va_end(list);
  const unsigned kind = _IOC_TYPE(request);
  if (kind == 'K' || kind == 'd') {
    const auto found = amd_gpu::files::find(descriptor);
    int status = -ENOTTY;
    using amd_gpu::files::Kind;
    if (found.kind == Kind::kfd && kind == 'K') status = amd_gpu::kfd_ioctl(request, arguments);
    if (found.kind == Kind::render && kind == 'd') {
      status = amd_gpu::drm_ioctl(found.ordinal, request, arguments);
    }
    // As amdkfd answers a child that uses its parent's descriptor.
    if (found.kind == Kind::inherited) status = -EBADF;
    if (found.kind != Kind::other) {
      if (status >= 0) return status;
      errno = -status;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_ioctl, descriptor, request, arguments));
}

// A device's memory is in no core dump of the process.
EXPORT void* mmap(void* start, size_t bytes, int protection, int flags, int file, off_t offset) {
  void* const mapped =
      reinterpret_cast<void*>(syscall(SYS_mmap, start, bytes, protection, flags, file, offset));
  if (mapped != MAP_FAILED && file >= 0 && amd_gpu::has_driver() &&
      amd_gpu::files::find(file).kind != amd_gpu::files::Kind::other) {
    madvise(mapped, bytes, MADV_DONTDUMP);
  }
  return mapped;
}

EXPORT void* mmap64(void* start, size_t bytes, int protection, int flags, int file, off64_t offset) {
  return mmap(start, bytes, protection, flags, file, offset);
}

EXPORT int munmap(void* start, size_t bytes) {
  if (amd_gpu::has_driver() && amd_gpu::driver().svm.is_used()) {
    amd_gpu::driver().svm.host_unmaps(reinterpret_cast<uint64_t>(start), bytes);
  }
  return static_cast<int>(syscall(SYS_munmap, start, bytes));
}
