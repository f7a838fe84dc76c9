#include "common/glibc_floor.h"

#include "common/snapshot_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/clock.h"
#include "common/memory_room.h"
#include "common/socket.h"
#include "common/text.h"
#include "common/writer_pool.h"

namespace kerncap {
namespace {

ssize_t plain_write(int fd, const void* bytes, size_t size, off_t offset) {
  return ::pwrite(fd, bytes, size, offset);
}

std::string error_name(int error) {
  // strerror may load a message catalogue of the target's; these are what a disk says.
  if (error == ENOSPC) return "no space left on the disk";
  if (error == EDQUOT) return "the disk quota is used up";
  if (error == EIO) return "the disk failed (EIO)";
  if (error == EROFS) return "the disk can only be read";
  if (error == EFBIG) return "the file would be too large for its file system or the limit on files";
  return "error " + std::to_string(error);
}

}  // namespace

WriteFunction snapshot_write = plain_write;

std::string io_error_text(int error) {
  return error_name(error);
}

bool SnapshotFile::create(const Session& session, const std::string& name, uint64_t size, std::string* why) {
  KeepErrno keep;
  name_ = name;
  size_t stripes = std::clamp<uint64_t>(size / stripe_bytes, 1, writer_count());
  for (size_t i = 0; i < stripes; ++i) {
    paths_.push_back(session.path(name) + (i == 0 ? "" : "." + std::to_string(i)));
    fds_.emplace_back(::open(paths_.back().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fds_.back().get() < 0) {
      *why = paths_.back() + " can't be made: " + error_name(errno);
      remove();
      return false;
    }
  }
  return resize(size, why);
}

void SnapshotFile::adopt(OwnFd fd, uint64_t number) {
  fds_.push_back(std::move(fd));
  memfd_ = static_cast<int64_t>(number);
}

bool SnapshotFile::resize(uint64_t size, std::string* why) {
  error_.store(0);
  return set_size(0, why) && set_size(size, why);
}

bool SnapshotFile::set_size(uint64_t size, std::string* why) {
  KeepErrno keep;
  uint64_t stripes = fds_.size(), blocks = (size + stripe_bytes - 1) / stripe_bytes;
  for (uint64_t i = 0; i < stripes; ++i) {
    uint64_t own = size;
    if (stripes > 1) {
      own = (blocks / stripes + (i < blocks % stripes ? 1 : 0)) * stripe_bytes;
      // The last block may be short, and it is the end of its stripe.
      if (blocks > 0 && (blocks - 1) % stripes == i) own -= blocks * stripe_bytes - size;
    }
    if (::ftruncate(fds_[i].get(), static_cast<off_t>(own)) != 0) {
      *why = "a file of " + size_text(own) + " can't be made: " + error_name(errno);
      remove();
      return false;
    }
  }
  return true;
}

bool SnapshotFile::write(uint64_t offset, const uint8_t* bytes, uint64_t size) noexcept {
  while (size > 0) {
    if (error_.load(std::memory_order_relaxed) != 0) return false;
    uint64_t stripes = fds_.size(), block = offset / stripe_bytes, inside = offset % stripe_bytes;
    uint64_t part = stripes == 1 ? size : std::min(size, stripe_bytes - inside);
    uint64_t at = stripes == 1 ? offset : block / stripes * stripe_bytes + inside;
    ssize_t done = snapshot_write(fds_[block % stripes].get(), bytes, part, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      error_.store(done < 0 ? errno : ENOSPC);
      return false;
    }
    offset += static_cast<uint64_t>(done);
    bytes += done;
    size -= static_cast<uint64_t>(done);
  }
  return true;
}

bool SnapshotFile::read(uint64_t offset, uint8_t* bytes, uint64_t size) const noexcept {
  while (size > 0) {
    uint64_t stripes = fds_.size(), block = offset / stripe_bytes, inside = offset % stripe_bytes;
    uint64_t part = stripes == 1 ? size : std::min(size, stripe_bytes - inside);
    uint64_t at = stripes == 1 ? offset : block / stripes * stripe_bytes + inside;
    ssize_t done = ::pread(fds_[block % stripes].get(), bytes, part, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    offset += static_cast<uint64_t>(done);
    bytes += done;
    size -= static_cast<uint64_t>(done);
  }
  return true;
}

void SnapshotFile::describe(json::Writer& json) const {
  json.begin_object();
  if (memfd_ >= 0) {
    json.field(key::memfd, memfd_);
  } else {
    json.field(key::file, name_);
    if (paths_.size() > 1)
      json.field(key::stripes, uint64_t{paths_.size()}).field(key::stripe_bytes, stripe_bytes);
  }
  json.end();
}

bool SnapshotFile::finish(std::string* why) {
  KeepErrno keep;
  if (memfd_ >= 0) return true;
  int error = 0;
  for (OwnFd& fd : fds_)
    if (int code = fd.close(); code != 0) error = code;
  fds_.clear();
  if (error != 0) *why = "its state could not be written: " + error_name(error);
  return error == 0;
}

void SnapshotFile::close() {
  fds_.clear();
}

void SnapshotFile::remove() {
  KeepErrno keep;
  close();
  for (const std::string& path : paths_) ::unlink(path.c_str());
  paths_.clear();
}

SnapshotFilePtr Memfds::take(uint64_t size) {
  KeepErrno keep;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!free_.empty()) {
      SnapshotFilePtr file = std::move(free_.back());
      free_.pop_back();
      if (file->is_ours()) return file;
    }
    if (refused_) return nullptr;
  }
  // A target that runs out of memory would be killed for our sake.
  if (!memory_has_room(size)) return nullptr;
  OwnFd fd(static_cast<int>(::memfd_create("kerncap", MFD_CLOEXEC)));
  std::lock_guard<std::mutex> lock(mutex_);
  json::Writer message = session_.question();
  message.field(key::memfd, count_).end();
  if (fd.get() < 0 || !hand_over(session_.conf().socket, message.text(), fd.get())) {
    refused_ = true;
    return nullptr;
  }
  auto file = std::make_unique<SnapshotFile>();
  file->adopt(std::move(fd), count_++);
  return file;
}

void Memfds::give_back(SnapshotFilePtr file) {
  std::string ignored;
  if (!file->is_ours() || !file->resize(0, &ignored)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(file));
}

void Memfds::reset_after_fork() {
  new (&mutex_) std::mutex;
  free_.clear();
  count_ = 0;
  refused_ = false;
}

}  // namespace kerncap
