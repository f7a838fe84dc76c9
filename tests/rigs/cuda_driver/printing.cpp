// What kernels print, as a driver of 2026 has it: a ring that loses what is oldest, 256 bytes for each
// printf; written on the thread of who waits, and by a thread of the driver's own, every now and then. Here
// that is when the context's limits are asked for, and from then on after each printf of the program's
// kernels, so that a test knows when (KERNCAP_RIG_PRINT_THREAD: "limits" or "printf").
#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include "state.h"

namespace rig {
namespace {

constexpr size_t record_bytes = 256;

struct Ring {
  std::mutex mutex;  // of the texts
  std::deque<std::string> texts;
  size_t limit = 1U << 20;
  std::mutex writing;  // whose thread holds it writes all that there is
  std::condition_variable asked, answered;
  unsigned wanted = 0, done = 0;  // of the driver's thread
  bool is_awake = false;
};
Ring& ring() {
  static auto* made = new Ring;
  return *made;
}

// As the driver: a part of the format at a time, by whichever function comes first to hand.
void write_text(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::fputc(text[at], stdout);
    if (end > at + 1) std::printf("%.*s", static_cast<int>(end - at - 1), text.data() + at + 1);
    if (end > at && end < text.size()) std::fwrite("\n", 1, 1, stdout);
    at = end + 1;
  }
}

void serve() {
  Ring& all = ring();
  std::unique_lock<std::mutex> lock(all.mutex);
  for (;;) {
    all.asked.wait(lock, [&] { return all.wanted != all.done; });
    unsigned now = all.wanted;
    lock.unlock();
    write_printed();
    lock.lock();
    all.done = now;
    all.answered.notify_all();
  }
}

void have_thread_write(bool wakes) {
  static const std::string when = [] {
    const char* text = std::getenv("KERNCAP_RIG_PRINT_THREAD");
    return std::string(text != nullptr ? text : "");
  }();
  if (when.empty()) return;
  static std::once_flag once;
  std::call_once(once, [] {
    sigset_t all, before;  // signals are the program's own threads' business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(serve).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
  Ring& all = ring();
  std::unique_lock<std::mutex> lock(all.mutex);
  all.is_awake = all.is_awake || (wakes && when == "printf");
  if (!all.is_awake && !wakes) return;
  unsigned mine = ++all.wanted;
  all.asked.notify_one();
  all.answered.wait(lock, [&] { return static_cast<int>(all.done - mine) >= 0; });
}

}  // namespace

void wake_printing() {
  have_thread_write(true);
}

void limit_printing(size_t bytes) {
  std::lock_guard<std::mutex> lock(ring().mutex);
  ring().limit = bytes;
}

void print(const char* text, bool is_helper) {
  {
    std::lock_guard<std::mutex> lock(ring().mutex);
    ring().texts.emplace_back(text);
    while (ring().texts.size() * record_bytes > ring().limit) ring().texts.pop_front();
  }
  if (!is_helper) have_thread_write(false);
}

void write_printed() {
  Ring& all = ring();
  std::lock_guard<std::mutex> writing(all.writing);
  std::deque<std::string> texts;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    texts.swap(all.texts);
  }
  if (texts.empty()) return;
  if (std::getenv("KERNCAP_RIG_PRINTS_RAW") != nullptr) {
    std::string text;
    for (const std::string& each : texts) text += each;
    if (write(1, text.data(), text.size()) < 0) std::abort();
    return;
  }
  for (const std::string& each : texts) write_text(each);
  std::fflush(stdout);
}

}  // namespace rig
