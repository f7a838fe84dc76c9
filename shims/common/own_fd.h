// A descriptor of ours in somebody else's process.
//
// The target may close it, as a daemon closes all that it has; its number may then name a file of the
// target's, which we must neither write nor close.
#ifndef KERNCAP_COMMON_OWN_FD_H
#define KERNCAP_COMMON_OWN_FD_H

#include <cstdint>
#include <utility>

namespace kerncap {

class OwnFd {
 public:
  OwnFd() noexcept = default;
  // Takes `fd` over, away from the numbers of the standard streams, which the target may have closed.
  explicit OwnFd(int fd) noexcept;
  OwnFd(OwnFd&& other) noexcept { *this = std::move(other); }
  OwnFd& operator=(OwnFd&& other) noexcept;
  ~OwnFd() noexcept { reset(); }

  bool is_ours() const noexcept;
  int get() const noexcept { return fd_; }
  int close() noexcept;   // the same, and what the system says of it: 0, or an error's number
  void reset() noexcept;  // closes it if it is still ours
  void forget() noexcept { fd_ = -1; }

 private:
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_OWN_FD_H
