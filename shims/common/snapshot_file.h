// Where a state's bytes go: files of the process's folder, striped when they are much, or memfds that
// the command line's process keeps.
#ifndef KERNCAP_COMMON_SNAPSHOT_FILE_H
#define KERNCAP_COMMON_SNAPSHOT_FILE_H

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/own_fd.h"
#include "common/session.h"

namespace kerncap {

// How the bytes reach a file; the tests put a full disk here.
using WriteFunction = ssize_t (*)(int fd, const void* bytes, size_t size, off_t offset);
extern WriteFunction snapshot_write;

class SnapshotFile {
 public:
  static constexpr uint64_t stripe_bytes = 4U << 20;  // and a file for each writer that has a whole one

  // `name` ("3.pre") of `size` bytes, all holes. False: `why`.
  bool create(const Session& session, const std::string& name, uint64_t size, std::string* why);
  // A memfd, numbered as it was handed over.
  void adopt(OwnFd fd, uint64_t number);
  bool resize(uint64_t size, std::string* why);    // empty, and `size` bytes of holes
  bool set_size(uint64_t size, std::string* why);  // what lies below stays

  // Any thread. False: error() says why, now and for all that follows.
  bool write(uint64_t offset, const uint8_t* bytes, uint64_t size) noexcept;
  bool read(uint64_t offset, uint8_t* bytes, uint64_t size) const noexcept;

  bool is_open() const { return !fds_.empty(); }
  bool is_memfd() const { return memfd_ >= 0; }
  bool is_ours() const { return is_open() && fds_[0].is_ours(); }
  int error() const { return error_.load(); }
  void describe(json::Writer& json) const;
  // No more bytes: a file is closed, and a network's disk may say only then that it is full.
  bool finish(std::string* why);
  void close();
  void remove();  // closes; a file is deleted

 private:
  std::vector<OwnFd> fds_;
  std::vector<std::string> paths_;
  std::string name_;
  int64_t memfd_ = -1;
  std::atomic<int> error_{0};
};

using SnapshotFilePtr = std::unique_ptr<SnapshotFile>;

// Memfds of launches that were dropped are used again, so their number stays small.
class Memfds {
 public:
  explicit Memfds(Session& session) : session_(session) {}
  // An empty one that the command line keeps too; null if it keeps none or memory is short.
  // Asks the command line: the gate is open.
  SnapshotFilePtr take(uint64_t size);
  void give_back(SnapshotFilePtr file);
  void reset_after_fork();

 private:
  Session& session_;
  std::mutex mutex_;
  std::vector<SnapshotFilePtr> free_;
  uint64_t count_ = 0;
  bool refused_ = false;
};

std::string io_error_text(int error);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SNAPSHOT_FILE_H
