// This process's part of a session: its folder, its records, its lock.
#ifndef KERNCAP_COMMON_SESSION_H
#define KERNCAP_COMMON_SESSION_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "common/json.h"
#include "common/own_fd.h"
#include "common/session_options.h"
#include "contract/records.h"

namespace kerncap {

// Thread safe. The folder is made with the first record; nothing here calls a driver.
class Session {
 public:
  Session(Conf conf, const char* shim) : conf_(std::move(conf)), shim_(shim), generation_(conf_.generation) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Conf& conf() const { return conf_; }
  // False if the folder can't be made or written: then nothing can be captured.
  bool open();
  bool is_open() const { return opened_.load(std::memory_order_acquire); }
  // One append; false if it could not be written whole.
  bool write(kerncap_record_kind kind, const json::Writer& payload);
  void failed(const std::string& kernel, const std::string& reason, int64_t launch = -1);

  const std::string& folder() const { return folder_; }  // after open()
  std::string process() const;                           // "<pid>-<n>"
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  uint64_t next_launch() { return next_launch_.fetch_add(1); }
  // A file of its own with these bytes, unless it is there. False: it could not be written.
  bool store(const std::string& name, const uint8_t* bytes, size_t size);
  // After one of these failed: "<what> can't be written to <folder>: <the system's reason>".
  std::string refusal(const char* what) const;

  // {"token": …, "process": … with the caller's fields to follow.
  json::Writer question() const;
  void set_generation(uint64_t generation) { generation_.store(generation); }
  uint64_t generation() const { return generation_.load(); }

  // In the child, before any other use: it opens a folder of its own when it launches something.
  void reset_after_fork();

 private:
  bool open_locked();
  bool hold_lock();
  std::string describe() const;
  bool append(kerncap_record_kind kind, const std::string& payload);
  bool make_folder();
  void remove_folder() const;
  void cannot_write(int error);  // an empty file says so to the command line

  Conf conf_;
  const char* shim_;
  std::mutex mutex_;
  std::string folder_, parent_folder_;
  OwnFd records_, lock_;
  bool refused_ = false;
  std::atomic<int> error_{0};  // the last that kept something from the session
  std::atomic<bool> opened_{false};
  std::atomic<uint64_t> next_launch_{0};
  std::atomic<uint64_t> generation_{0};  // of `kerncap arm`
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SESSION_H
