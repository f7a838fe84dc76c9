#include "common/glibc_floor.h"

#include "common/drain.h"

#include <algorithm>

#include "common/clock.h"
#include "common/gate.h"
#include "common/text.h"

namespace kerncap {
namespace {

// A kernel that was launched at once, as it may wait for another launch (waits_for), may wait for this one.
constexpr uint64_t with_waiter_ns = 200'000'000;

// Lets threads pass the gate while a drain takes long.
class LettingThrough {
 public:
  explicit LettingThrough(uint64_t timeout_ns) noexcept
      : started_ns_(now_ns()), every_ns_(timeout_ns / 100), next_ns_(started_ns_ + timeout_ns / 5) {}

  void step(const std::string& busy) {
    const uint64_t now = now_ns();
    if (now < next_ns_) return;
    next_ns_ = now + every_ns_;
    gate::Waiter who;
    if (!gate::let_one_through(&who)) return;
    if (count_ == 0) busy_ = busy;
    if (++count_ <= most_named) names_ += (count_ > 1 ? ", " : "") + text_of(who);
    is_clean_ = false;
  }

  // Whether nobody has passed since the drain began; if not, it begins again.
  bool is_clean() noexcept { return std::exchange(is_clean_, true); }

  std::string ended() const {
    if (count_ == 0) return {};
    return "before the launch, " + busy_ + " was busy for " +
           seconds_text((now_ns() - started_ns_) / 100000000 * 100000000) +
           ", until other threads were let through: " + names();
  }
  std::string not_ended() const {
    return count_ != 0 ? "; other threads were let through, and did not end it: " + names()
                       : "; no other thread waits for kerncap, so it may wait for this launch or for what "
                         "this thread does next";
  }

 private:
  static constexpr size_t most_named = 4;

  std::string names() const {
    return names_ + (count_ > most_named ? " and " + std::to_string(count_ - most_named) + " more" : "");
  }

  uint64_t started_ns_, every_ns_, next_ns_;
  size_t count_ = 0;
  bool is_clean_ = true;
  std::string busy_, names_;
};

}  // namespace

Poll drain_device(ProcessCapture& process, Device& device, std::string* what, std::string* let_through) {
  const bool has_waiter = process.waiter_runs.load();
  uint64_t timeout_ns = process.conf().drain_timeout_ns();
  if (has_waiter) timeout_ns = std::min(timeout_ns, with_waiter_ns);
  const uint64_t deadline = now_ns() + timeout_ns;
  LettingThrough letting(timeout_ns);
  device.begin_drain();
  for (Backoff backoff;; backoff.pause()) {
    Poll poll = device.idle(what);
    if (poll == Poll::failed) return poll;
    if (poll == Poll::done && gate::all_have_left()) {
      if (letting.is_clean()) {
        process.waiter_runs.store(false);
        *let_through = letting.ended();
        return poll;
      }
      device.begin_drain();
    }
    if (now_ns() >= deadline) {
      if (poll == Poll::done) *what = "a driver call of a thread that was let through";
      *what += " did not finish within " + seconds_text(timeout_ns) + " before the launch";
      if (has_waiter) *what += ", and a kernel that may wait for this one runs";
      *what += letting.not_ended();
      return Poll::pending;
    }
    if (poll == Poll::pending) letting.step(*what);
  }
}

}  // namespace kerncap
