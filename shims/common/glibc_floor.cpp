// What a static libgcc and a new glibc's headers would otherwise take from newer versions.
#include "common/glibc_floor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kerncap::floor {

int fstat(int fd, struct stat* status) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, fd, status));
}

int stat(const char* path, struct stat* status) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}

}  // namespace kerncap::floor

// What libstdc++.a asks of the glibc that it was compiled for. Defined here, and hidden, its calls stay
// in the library; the real functions are reached by their oldest versions.
#if defined(KERNCAP_OLDEST) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define KERNCAP_HIDDEN extern "C" __attribute__((visibility("hidden")))

extern "C" int kerncap_real_once(pthread_once_t*, void (*)());
extern "C" int kerncap_real_key_create(pthread_key_t*, void (*)(void*));
__asm__(".symver kerncap_real_once,pthread_once@" KERNCAP_OLDEST);
__asm__(".symver kerncap_real_key_create,__pthread_key_create@" KERNCAP_OLDEST);

KERNCAP_HIDDEN int pthread_once(pthread_once_t* once, void (*routine)()) {
  return kerncap_real_once(once, routine);
}
KERNCAP_HIDDEN int __pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  return kerncap_real_key_create(key, destructor);
}
// glibc 2.36. Seeds hash tables, if anything.
KERNCAP_HIDDEN unsigned arc4random() noexcept {
  unsigned value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value) value = 0x9E3779B9U;
  return value;
}
// glibc 2.32; reference counts skip their atomics while it is true, which we never claim.
KERNCAP_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;
#undef KERNCAP_HIDDEN
#endif

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && DLFO_STRUCT_HAS_EH_DBASE == 0
namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

int look_in(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfW(Phdr)* unwind = nullptr;
  uintptr_t first = 0, last = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) unwind = &header;
    if (header.p_type != PT_LOAD) continue;
    if (first == 0 || start < first) first = start;
    if (start + header.p_memsz > last) last = start + header.p_memsz;
    inside = inside || (search->address >= start && search->address - start < header.p_memsz);
  }
  if (!inside || unwind == nullptr) return inside ? -1 : 0;
  search->found->dlfo_flags = 0;
  search->found->dlfo_map_start = reinterpret_cast<void*>(first);
  search->found->dlfo_map_end = reinterpret_cast<void*>(last);
  search->found->dlfo_link_map = nullptr;
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(info->dlpi_addr + unwind->p_vaddr);
  return 1;
}

}  // namespace

// The unwinder inside libgcc asks this of glibc 2.35 and newer. Ours, hidden in the library, walks
// the loaded objects as the unwinder did before.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(void* address,
                                                                     dl_find_object* found) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(look_in, &search) == 1 ? 0 : -1;
}
#endif
