#include "common/glibc_floor.h"

#include "common/session.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/quiet_signals.h"
#include "common/rank.h"
#include "common/snapshot_file.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t max_reason_bytes = 4000;
constexpr int max_folders = 1000000;

std::string link_target(const char* link) {
  std::string target(4096, '\0');
  ssize_t size = ::readlink(link, &target[0], target.size());
  target.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return target;
}

bool write_whole(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

std::string encode(kerncap_record_kind kind, const std::string& payload) {
  kerncap_record_header header{};
  header.magic = KERNCAP_RECORD_MAGIC;
  header.kind = static_cast<uint16_t>(kind);
  header.version = KERNCAP_RECORD_VERSION;
  header.payload_bytes = payload.size();
  header.payload_crc32 = crc32(reinterpret_cast<const uint8_t*>(payload.data()), payload.size());
  std::string record(reinterpret_cast<const char*>(&header), sizeof header);
  record += payload;
  record.append(
      (KERNCAP_RECORD_ALIGNMENT - payload.size() % KERNCAP_RECORD_ALIGNMENT) % KERNCAP_RECORD_ALIGNMENT,
      '\0');
  return record;
}

}  // namespace

bool Session::open() {
  if (is_open()) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  return open_locked();
}

bool Session::open_locked() {
  if (is_open()) return true;
  if (refused_) return false;
  KeepErrno keep;
  refused_ = true;
  QuietSignals quiet;
  std::string stem = conf_.folder + "/" + std::to_string(::getpid()) + "-";
  int number = 0;
  // A number may be taken: another shim of this process, a process id used twice, an exec.
  while (::mkdir((stem + std::to_string(number)).c_str(), 0700) != 0)
    if (errno != EEXIST || ++number == max_folders) {
      cannot_write(errno);
      return false;
    }
  folder_ = stem + std::to_string(number);
  if (!make_folder()) {
    cannot_write(errno);
    remove_folder();
    return false;
  }
  refused_ = false;
  opened_.store(true, std::memory_order_release);
  return true;
}

bool Session::make_folder() {
  if (::mkdir((folder_ + "/code").c_str(), 0700) != 0 || !hold_lock()) return false;
  records_ = OwnFd(::open(path("records").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  return records_.get() >= 0 && append(KERNCAP_RECORD_PROCESS, describe());
}

// One in which nothing is recorded yet.
void Session::remove_folder() const {
  for (const char* name : {"lock", "records"}) ::unlink(path(name).c_str());
  ::rmdir(path("code").c_str());
  ::rmdir(folder_.c_str());
}

void Session::cannot_write(int error) {
  KeepErrno keep;
  error_.store(error);
  std::string mark = "unwritten-" + std::to_string(error) + "-" + std::to_string(::getpid());
  OwnFd file(::open((conf_.folder + "/" + mark).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

std::string Session::refusal(const char* what) const {
  return std::string(what) + " can't be written to " + folder_ + ": " + io_error_text(error_.load());
}

bool Session::hold_lock() {
  lock_ = OwnFd(::open(path("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  // The command line may have it for a moment, to see whether we live.
  for (int i = 0; lock_.get() >= 0 && i < 1000; ++i) {
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return true;
    timespec pause = as_timespec(1000000);
    nanosleep(&pause, nullptr);
  }
  return false;
}

std::string Session::describe() const {
  json::Writer json;
  json.begin_object().field(key::shim, shim_).field(key::pid, ::getpid());
  json.text_or_null(key::parent_folder, parent_folder_).key(key::argv).begin_array();
  std::string command = read_file("/proc/self/cmdline", 256 * 1024);
  for (size_t at = 0; at < command.size();) {
    size_t end = command.find('\0', at);
    if (end == std::string::npos) end = command.size();
    json.value(command.substr(at, end - at));
    at = end + 1;
  }
  json.end().field(key::executable, link_target("/proc/self/exe")).field(key::python, "");
  json.text_or_null(key::cwd, link_target("/proc/self/cwd"))
      .field(key::time_ns, wall_ns())
      .key(key::packages)
      .begin_object()
      .end();
  Rank rank = rank_here();
  for (auto [name, number] : {std::pair(key::rank, rank.global), std::pair(key::local_rank, rank.local)})
    if (number < 0)
      json.null_field(name);
    else
      json.field(name, number);
  json.end();
  return json.text();
}

bool Session::append(kerncap_record_kind kind, const std::string& payload) {
  if (payload.size() > KERNCAP_RECORD_MAX_PAYLOAD) return false;
  std::string record = encode(kind, payload);
  off_t end = ::lseek(records_.get(), 0, SEEK_END);
  if (write_whole(records_.get(), record.data(), record.size())) return true;
  KeepErrno keep;
  // Half a record would hide all that come after it.
  if (end >= 0 && ::ftruncate(records_.get(), end) != 0) return false;
  return false;
}

bool Session::write(kerncap_record_kind kind, const json::Writer& payload) {
  KeepErrno keep;
  QuietSignals quiet;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!open_locked()) return false;
  if (!records_.is_ours())  // the target closed it; O_APPEND goes on where it ended
    records_ = OwnFd(::open(path("records").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!lock_.is_ours()) hold_lock();
  if (records_.get() >= 0 && append(kind, payload.text())) return true;
  cannot_write(errno);
  return false;
}

void Session::failed(const std::string& kernel, const std::string& reason, int64_t launch) {
  json::Writer json;
  json.begin_object();
  if (launch < 0)
    json.null_field(key::launch);
  else
    json.field(key::launch, launch);
  json.field(key::kernel, kernel).field(key::reason, reason.substr(0, max_reason_bytes));
  if (generation() != 0) json.field(key::generation, generation());
  json.end();
  write(KERNCAP_RECORD_FAILED, json);
}

std::string Session::process() const {
  return folder_.substr(folder_.rfind('/') + 1);
}

bool Session::store(const std::string& name, const uint8_t* bytes, size_t size) {
  KeepErrno keep;
  QuietSignals quiet;
  std::string final_name = path(name), partial = final_name + ".part";
  if (::access(final_name.c_str(), F_OK) == 0) return true;
  int error = 0;
  OwnFd file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0 || !write_whole(file.get(), reinterpret_cast<const char*>(bytes), size)) error = errno;
  int closing = file.close();  // a network's disk may say only here that it is full
  if (error == 0) error = closing;
  if (error == 0 && ::rename(partial.c_str(), final_name.c_str()) != 0) error = errno;
  if (error == 0) return true;
  ::unlink(partial.c_str());
  if (::access(final_name.c_str(), F_OK) == 0) return true;
  error_.store(error);
  return false;
}

json::Writer Session::question() const {
  json::Writer json;
  json.begin_object().field(key::token, conf_.token).field(key::process, process());
  return json;
}

void Session::reset_after_fork() {
  new (&mutex_) std::mutex;
  if (is_open()) parent_folder_ = process();
  // Our copies only: the lock belongs to the open file, which the parent still has.
  records_.reset();
  lock_.reset();
  folder_.clear();
  refused_ = false;
  next_launch_.store(0);
  opened_.store(false, std::memory_order_release);
}

}  // namespace kerncap
