#include "common/glibc_floor.h"

#include "common/own_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/clock.h"

namespace kerncap {

OwnFd::OwnFd(int fd) noexcept : fd_(fd) {
  KeepErrno keep;
  if (fd_ >= 0 && fd_ < 3) {
    int higher = ::fcntl(fd_, F_DUPFD_CLOEXEC, 3);
    ::close(fd_);
    fd_ = higher;
  }
  struct stat status;
  if (fd_ >= 0 && floor::fstat(fd_, &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
}

OwnFd& OwnFd::operator=(OwnFd&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = other.fd_;
  device_ = other.device_;
  inode_ = other.inode_;
  other.fd_ = -1;
  return *this;
}

bool OwnFd::is_ours() const noexcept {
  struct stat status;
  return fd_ >= 0 && floor::fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

int OwnFd::close() noexcept {
  KeepErrno keep;
  int error = is_ours() && ::close(fd_) != 0 && errno != EINTR ? errno : 0;
  fd_ = -1;
  return error;
}

void OwnFd::reset() noexcept {
  close();
}

}  // namespace kerncap
