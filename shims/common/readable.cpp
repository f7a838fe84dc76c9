#include "common/readable.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/clock.h"

namespace kerncap {
namespace {

// By a system call that reads eight bytes there and then refuses: an unreadable page makes no signal.
bool is_readable_at(uint64_t address) {
  KeepErrno keep;
  auto* word = reinterpret_cast<void*>(static_cast<uintptr_t>(address & ~7ULL));
  return syscall(SYS_rt_sigprocmask, ~0, word, nullptr, sizeof(uint64_t)) == 0 || errno != EFAULT;
}

}  // namespace

bool is_readable_here(uint64_t base, uint64_t size) {
  auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t start = base & ~(page - 1), end = (base + size + page - 1) & ~(page - 1);
  std::vector<unsigned char> state(1024);
  for (uint64_t at = start; at < end;) {
    uint64_t length = std::min<uint64_t>(end - at, state.size() * page);
    if (::mincore(reinterpret_cast<void*>(static_cast<uintptr_t>(at)), length, state.data()) != 0 ||
        !is_readable_at(at) || !is_readable_at(at + length - 1))
      return false;
    at += length;
  }
  return true;
}

}  // namespace kerncap
