// Keeps what our own writes would do to the target from it: a file past the limit on file sizes sends
// SIGXFSZ, a closed socket SIGPIPE, and either ends a program that does not expect it.
#ifndef KERNCAP_COMMON_QUIET_SIGNALS_H
#define KERNCAP_COMMON_QUIET_SIGNALS_H

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace kerncap {

// Both signals are blocked on this thread for the length of a scope; what came in it is taken away again.
// By system call: the library's pthread_sigmask has a newer version on a new glibc.
class QuietSignals {
 public:
  QuietSignals() noexcept {
    syscall(SYS_rt_sigpending, &pending_, sizeof pending_);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &before_, sizeof before_);
  }
  ~QuietSignals() noexcept {
    timespec none{0, 0};
    uint64_t ours = mask & ~pending_;  // what was pending before is the target's
    while (ours != 0 && syscall(SYS_rt_sigtimedwait, &ours, nullptr, &none, sizeof ours) > 0) {
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
  }
  QuietSignals(const QuietSignals&) = delete;
  QuietSignals& operator=(const QuietSignals&) = delete;

 private:
  static constexpr uint64_t mask = 1ULL << (SIGXFSZ - 1) | 1ULL << (SIGPIPE - 1);
  uint64_t before_ = 0, pending_ = 0;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_QUIET_SIGNALS_H
