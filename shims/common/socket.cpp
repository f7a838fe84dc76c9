#include "common/glibc_floor.h"

#include "common/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "common/clock.h"
#include "common/own_fd.h"

namespace kerncap {
namespace {

constexpr uint64_t answer_timeout_ns = 4 * second_ns;
constexpr size_t max_answer_bytes = 16U << 20;

// A connected, non-blocking socket that signals nothing and passes to no child.
class Connection {
 public:
  Connection(const std::string& path, uint64_t deadline_ns) : deadline_(deadline_ns) {
    sockaddr_un address;
    std::memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) return;
    std::memcpy(address.sun_path, path.data(), path.size());
    fd_ = OwnFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    while (fd_.get() >= 0) {
      if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        connected_ = true;
        return;
      }
      // EAGAIN: its queue of connections is full.
      if ((errno != EAGAIN && errno != EINTR) || now_ns() >= deadline_) return;
      timespec pause = as_timespec(1000000);
      nanosleep(&pause, nullptr);
    }
  }

  bool connected() const { return connected_; }

  bool send(const std::string& data, int attached_fd) {
    size_t sent = 0;
    while (sent < data.size()) {
      iovec part{const_cast<char*>(data.data()) + sent, data.size() - sent};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      if (attached_fd >= 0 && sent == 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &attached_fd, sizeof(int));
      }
      ssize_t count = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
      if (count > 0)
        sent += static_cast<size_t>(count);
      else if (!again() || !wait(POLLOUT))
        return false;
    }
    return true;
  }

  void end_of_question() { ::shutdown(fd_.get(), SHUT_WR); }

  // Until the other side closes, or `most` bytes.
  bool receive(std::string* data, size_t most) {
    char part[4096];
    while (data->size() < most) {
      ssize_t count = ::recv(fd_.get(), part, sizeof part, 0);
      if (count == 0) return true;
      if (count > 0)
        data->append(part, static_cast<size_t>(count));
      else if (!again() || !wait(POLLIN))
        return false;
    }
    return true;
  }

 private:
  static bool again() { return errno == EAGAIN || errno == EINTR; }

  bool wait(short what) {
    uint64_t now = now_ns();
    if (now >= deadline_) return false;
    pollfd entry{fd_.get(), what, 0};
    ::poll(&entry, 1, static_cast<int>((deadline_ - now) / 1000000 + 1));
    return true;
  }

  OwnFd fd_;
  uint64_t deadline_;
  bool connected_ = false;
};

}  // namespace

bool ask(const std::string& socket_path, const std::string& question, json::Value* answer) {
  KeepErrno keep;
  Connection connection(socket_path, now_ns() + answer_timeout_ns);
  std::string text;
  if (!connection.connected() || !connection.send(question, -1)) return false;
  connection.end_of_question();
  return connection.receive(&text, max_answer_bytes) && json::parse(text, answer) &&
         answer->kind == json::Value::Kind::object;
}

bool hand_over(const std::string& socket_path, const std::string& message, int fd) {
  KeepErrno keep;
  Connection connection(socket_path, now_ns() + answer_timeout_ns);
  std::string reply;
  return connection.connected() && connection.send(message, fd) && connection.receive(&reply, 1) &&
         reply == "k";
}

}  // namespace kerncap
