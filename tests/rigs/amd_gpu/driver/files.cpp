#include "files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>

namespace amd_gpu::files {
namespace {

struct Entry {
  dev_t device = 0;
  ino_t inode = 0;
  Found found;
};

// Written only while the Driver is made (or in a fresh child, which has one thread), read without a lock.
constexpr unsigned capacity = 64;
Entry entries[capacity];
std::atomic<unsigned> used{0};

}  // namespace

void own(int file, Kind kind, unsigned ordinal) {
  struct stat status{};
  const unsigned place = used.load();
  if (place == capacity || fstat(file, &status) != 0) return;
  entries[place] = {status.st_dev, status.st_ino, {kind, ordinal}};
  used.store(place + 1, std::memory_order_release);
}

void disown() {
  for (unsigned i = 0; i < used.load(); ++i) entries[i].found.kind = Kind::inherited;
}

Found find(int descriptor) {
  const unsigned known = used.load(std::memory_order_acquire);
  struct stat status{};
  if (known == 0 || fstat(descriptor, &status) != 0) return {};
  for (unsigned i = 0; i < known; ++i) {
    if (entries[i].inode == status.st_ino && entries[i].device == status.st_dev) return entries[i].found;
  }
  return {};
}

int duplicate(int file) {
  return fcntl(file, F_DUPFD_CLOEXEC, 64);
}

}  // namespace amd_gpu::files
