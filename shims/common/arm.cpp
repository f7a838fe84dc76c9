#include "common/glibc_floor.h"

#include "common/arm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/own_fd.h"
#include "common/this_thread.h"

namespace kerncap::arm {
namespace {

constexpr size_t page_bytes = 4096;
const std::atomic<uint64_t> nobody{0};

}  // namespace

KERNCAP_READ_BY_EACH_CALL const std::atomic<uint64_t>* page = &nobody;
KERNCAP_READ_BY_EACH_CALL std::atomic<uint64_t> seen{0};

bool watch(const std::string& folder) noexcept {
  static_assert(sizeof(std::atomic<uint64_t>) == 8 && std::atomic<uint64_t>::is_always_lock_free,
                "the page's first word is read as it lies there");
  OwnFd file(::open((folder + "/arm").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status;
  // Beyond the end of the file a read would end the target.
  if (file.get() < 0 || floor::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size < static_cast<off_t>(page_bytes))
    return false;
  void* mapped = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return false;
  page = static_cast<const std::atomic<uint64_t>*>(mapped);
  return true;
}

bool is_watched() noexcept {
  return page != &nobody;
}

}  // namespace kerncap::arm
