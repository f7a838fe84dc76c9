// Time, and waiting that a deadline ends.
#ifndef KERNCAP_COMMON_CLOCK_H
#define KERNCAP_COMMON_CLOCK_H

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace kerncap {

constexpr uint64_t second_ns = 1000000000ULL;

inline uint64_t read_clock_ns(clockid_t clock) noexcept {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * second_ns + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t now_ns() noexcept {
  return read_clock_ns(CLOCK_MONOTONIC);
}
inline uint64_t wall_ns() noexcept {
  return read_clock_ns(CLOCK_REALTIME);
}
// Some milliseconds coarse, and a few nanoseconds to read.
inline uint64_t coarse_ns() noexcept {
  return read_clock_ns(CLOCK_MONOTONIC_COARSE);
}

inline timespec as_timespec(uint64_t ns) noexcept {
  return timespec{static_cast<time_t>(ns / second_ns), static_cast<long>(ns % second_ns)};
}

// Polls more and more rarely: at once for the first tenth of a millisecond, since a sleep takes as
// long; half a millisecond apart in the end.
class Backoff {
 public:
  void pause() noexcept {
    if (sleep_ns_ == 0) {
      if (started_ == 0) started_ = now_ns();
      if (now_ns() - started_ < 100000) return;
      sleep_ns_ = 10000;
    }
    if (sleep_ns_ < 500000) sleep_ns_ += sleep_ns_ / 4;
    timespec pause = as_timespec(sleep_ns_);
    nanosleep(&pause, nullptr);
  }

 private:
  uint64_t started_ = 0, sleep_ns_ = 0;
};

// The target reads errno after calls that we sit in.
class KeepErrno {
 public:
  KeepErrno() noexcept : kept_(errno) {}
  ~KeepErrno() noexcept { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int kept_;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_CLOCK_H
