// Binds what moved between glibc's versions to the oldest one, so that a library built on a new
// system loads on one with glibc 2.28. Include it first in every file that calls one of these.
//
// glibc 2.34 gave libpthread's and libdl's functions new versions in libc.so.6; the old versions are
// still there. The library must name libpthread and libdl as needed (-Wl,--no-as-needed): on an older
// system that is where they live. A test reads the finished library's symbols.
#ifndef KERNCAP_COMMON_GLIBC_FLOOR_H
#define KERNCAP_COMMON_GLIBC_FLOOR_H

#if defined(__x86_64__)
#define KERNCAP_OLDEST "GLIBC_2.2.5"
#define KERNCAP_OLDEST_SETCLOCK "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define KERNCAP_OLDEST "GLIBC_2.17"
#define KERNCAP_OLDEST_SETCLOCK "GLIBC_2.17"
#endif

// Sanitizers intercept these by their plain names.
#if defined(KERNCAP_OLDEST) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define KERNCAP_BIND(name) __asm__(".symver " #name "," #name "@" KERNCAP_OLDEST)
KERNCAP_BIND(dlopen);
KERNCAP_BIND(dlclose);
KERNCAP_BIND(dlsym);
KERNCAP_BIND(dlvsym);
KERNCAP_BIND(dladdr);
KERNCAP_BIND(dlerror);
KERNCAP_BIND(pthread_create);
KERNCAP_BIND(pthread_detach);
KERNCAP_BIND(pthread_join);
KERNCAP_BIND(pthread_key_create);
KERNCAP_BIND(pthread_key_delete);
KERNCAP_BIND(pthread_getspecific);
KERNCAP_BIND(pthread_setspecific);
KERNCAP_BIND(pthread_sigmask);
KERNCAP_BIND(pthread_mutex_trylock);
KERNCAP_BIND(pthread_attr_setstacksize);
KERNCAP_BIND(pthread_rwlock_rdlock);
KERNCAP_BIND(pthread_rwlock_wrlock);
KERNCAP_BIND(pthread_rwlock_unlock);
__asm__(".symver pthread_condattr_setclock,pthread_condattr_setclock@" KERNCAP_OLDEST_SETCLOCK);
#undef KERNCAP_BIND
#endif

#include <sys/stat.h>

namespace kerncap::floor {

// By the system's own calls: glibc 2.33 gave both new names.
int fstat(int fd, struct stat* status) noexcept;
int stat(const char* path, struct stat* status) noexcept;

}  // namespace kerncap::floor

#endif  // KERNCAP_COMMON_GLIBC_FLOOR_H
