// Preloaded before everything else: the n-th call that would change a file of a kerncap session, or below the
// folder that FAULTY_DISK_UNDER names, fails.
//
// FAULTY_DISK="n how": `how` is an error's number, or "short" (a few bytes are written) or "half" (half of
// them, then ENOSPC). FAULTY_DISK_COUNT names a file that gets the number of such calls at the end, of each
// process a line.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int calls;

static int of_session(const char* path) {
  const char* under = getenv("FAULTY_DISK_UNDER");
  if (under != NULL) return strncmp(path, under, strlen(under)) == 0;
  return strstr(path, "/.kerncap-session-") != NULL || strstr(path, "/memfd:kerncap") != NULL;
}

static int is_ours(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = 0;
  return of_session(path);
}

// 0: as always; -1: fails, errno is set; otherwise so many bytes may be written.
static ssize_t fate(size_t size) {
  const char* faulty = getenv("FAULTY_DISK");
  int number = atomic_fetch_add(&calls, 1) + 1;
  if (faulty == NULL || atoi(faulty) != number) return 0;
  const char* how = strchr(faulty, ' ') + 1;
  if (strcmp(how, "short") == 0) return size > 7 ? 7 : 0;
  if (strcmp(how, "half") == 0 && size > 1) return (ssize_t)(size / 2);
  errno = strcmp(how, "half") == 0 ? ENOSPC : atoi(how);
  return errno != 0 ? -1 : 0;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  ssize_t most = is_ours(fd) ? fate(size) : 0;
  if (most < 0) return -1;
  return syscall(SYS_write, fd, bytes, most > 0 ? (size_t)most : size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  ssize_t most = is_ours(fd) ? fate(size) : 0;
  if (most < 0) return -1;
  return syscall(SYS_pwrite64, fd, bytes, most > 0 ? (size_t)most : size, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off_t offset) {
  return pwrite(fd, bytes, size, offset);
}

// Python's os.pwritev is one of these, as libc has them. Of a fault in part, no more than the first part is
// written.
static ssize_t in_parts(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  ssize_t most = is_ours(fd) ? fate(size) : 0;
  if (most < 0) return -1;
  if (most == 0) return syscall(SYS_pwritev2, fd, parts, count, offset, 0L, flags);
  size_t first = (size_t)most < parts[0].iov_len ? (size_t)most : parts[0].iov_len;
  return syscall(SYS_pwrite64, fd, parts[0].iov_base, first, offset);
}

ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  return in_parts(fd, parts, count, offset, 0);
}
ssize_t pwritev64(int fd, const struct iovec* parts, int count, off_t offset) {
  return in_parts(fd, parts, count, offset, 0);
}
ssize_t pwritev2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  return in_parts(fd, parts, count, offset, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  return in_parts(fd, parts, count, offset, flags);
}

int ftruncate(int fd, off_t size) {
  if (is_ours(fd) && fate(0) < 0) return -1;
  return (int)syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off_t size) {
  return ftruncate(fd, size);
}

int mkdir(const char* path, mode_t mode) {
  if (of_session(path) && fate(0) < 0) return -1;
  return (int)syscall(SYS_mkdir, path, mode);
}

int rename(const char* from, const char* to) {
  if (of_session(to) && fate(0) < 0) return -1;
  return (int)syscall(SYS_rename, from, to);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) && of_session(path) && fate(0) < 0) return -1;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open(path, flags, mode);
}

// The same by a folder's descriptor.
static int is_below(int folder, const char* path) {
  char link[64], whole[8192];
  if (path[0] == '/') return of_session(path);
  if (folder == AT_FDCWD) {
    if (getcwd(whole, 4096) == NULL) return 0;
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, whole, 4095);
    whole[size > 0 ? size : 0] = 0;
  }
  strcat(whole, "/");
  strncat(whole, path, 4000);
  return of_session(whole);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) && is_below(folder, path) && fate(0) < 0) return -1;
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return openat(folder, path, flags, mode);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  if (is_below(folder, path) && fate(0) < 0) return -1;
  return (int)syscall(SYS_mkdirat, folder, path, mode);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (is_below(to_folder, to) && fate(0) < 0) return -1;
  return (int)syscall(SYS_renameat, from_folder, from, to_folder, to);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  if (is_below(to_folder, to) && fate(0) < 0) return -1;
  return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int fsync(int fd) {
  if (is_ours(fd) && fate(0) < 0) return -1;
  return (int)syscall(SYS_fsync, fd);
}

__attribute__((destructor)) static void count(void) {
  const char* path = getenv("FAULTY_DISK_COUNT");
  if (path == NULL || calls == 0) return;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  char text[32];
  int size = snprintf(text, sizeof text, "%d\n", atomic_load(&calls));
  syscall(SYS_write, fd, text, size);
  close(fd);
}
