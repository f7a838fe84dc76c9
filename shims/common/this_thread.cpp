#include "common/glibc_floor.h"

#include "common/this_thread.h"

#include <new>

namespace kerncap {

__thread ThisThread this_thread;

namespace {

std::atomic<ThreadLine*> all_lines{nullptr};

// Hands the line back when the thread ends.
struct Leaver {
  bool armed = false;
  ~Leaver() {
    ThreadLine* line = this_thread.line;
    if (line == nullptr) return;
    this_thread.line = nullptr;
    line->left_launches = this_thread.launches;
    line->inside.store(0, std::memory_order_release);
    line->taken.store(false, std::memory_order_release);
  }
};
thread_local Leaver leaver;

}  // namespace

ThreadLine* take_line() noexcept {
  leaver.armed = true;  // its construction registers the thread's end
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next) {
    bool free = false;
    if (!line->taken.load(std::memory_order_relaxed) &&
        line->taken.compare_exchange_strong(free, true, std::memory_order_acq_rel)) {
      this_thread.launches = line->left_launches;
      return this_thread.line = line;
    }
  }
  auto* line = new (std::nothrow) ThreadLine;
  if (line == nullptr) return nullptr;
  line->taken.store(true, std::memory_order_relaxed);
  line->next = all_lines.load(std::memory_order_relaxed);
  while (!all_lines.compare_exchange_weak(line->next, line, std::memory_order_acq_rel)) {
  }
  return this_thread.line = line;
}

ThreadLine* first_line() noexcept {
  return all_lines.load(std::memory_order_acquire);
}

void free_lines_after_fork() noexcept {
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next) {
    line->inside.store(0, std::memory_order_relaxed);
    line->waiting.store(Waiting::no, std::memory_order_relaxed);
    line->taken.store(line == this_thread.line, std::memory_order_relaxed);
  }
}

}  // namespace kerncap
