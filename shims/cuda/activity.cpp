#include "common/glibc_floor.h"

#include "cuda/activity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "common/clock.h"
#include "common/gate.h"
#include "common/process_capture.h"
#include "common/quiet_signals.h"
#include "cuda/driver.h"

namespace kerncap::cuda::activity {
namespace {

constexpr size_t buffer_bytes = 2U << 20;
constexpr size_t buffer_alignment = 64;
constexpr uint32_t flush_forced = 1;  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
constexpr int another_subscriber = 39, not_implemented = 27;
constexpr unsigned wait_us = 200;
constexpr int most_waits = 10000;  // 2 s
enum State : int { undecided, starting, on, off };
std::atomic<int> state{undecided};
Cupti cupti;                  // whole before `on`
uint64_t behind_host_ns = 0;  // modulo 2^64; likewise

struct Words {
  std::mutex mutex;
  std::string why;  // not CUPTI
};
Words& words() {
  static auto* instance = new Words;
  return *instance;
}

void turn_off(const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(words().mutex);
    words().why = why;
  }
  state.store(off, std::memory_order_release);
}

void requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  void* memory = nullptr;
  bool made = ::posix_memalign(&memory, buffer_alignment, buffer_bytes) == 0;
  *buffer = made ? static_cast<uint8_t*>(memory) : nullptr;
  *size = made ? buffer_bytes : 0;
  *most_records = 0;
}

void completed(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (buffer != nullptr && valid > 0) read_buffer(cupti, buffer, valid);
  std::free(buffer);
}

void no_callback() {}

std::string result_text(int result) {
  const char* text = nullptr;
  if (cupti.cuptiGetResultString != nullptr) cupti.cuptiGetResultString(result, &text);
  return (text != nullptr ? text : "CUPTI error") + (" (" + std::to_string(result) + ")");
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// The command line names this library there too.
bool is_ours(const char* path) {
  struct stat named, own;
  return floor::stat(path, &named) == 0 && floor::stat(loaded::self().path, &own) == 0 &&
         named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

// A subscription can be had once in a process: by trying one we learn of other tools, and keep none.
bool is_free(std::string* why) {
  if (is_set("CUDA_INJECTION64_PATH") && !is_ours(std::getenv("CUDA_INJECTION64_PATH"))) {
    *why = "a profiler is attached (CUDA_INJECTION64_PATH)";
    return false;
  }
  void* subscriber = nullptr;
  int result = cupti.cuptiSubscribe(&subscriber, no_callback, nullptr);
  if (result == 0) cupti.cuptiUnsubscribe(subscriber);
  if (result == another_subscriber) *why = "a profiler is attached to CUPTI already";
  if (result != 0 && result != another_subscriber) *why = "CUPTI refused: " + result_text(result);
  return result == 0;
}

std::vector<int> kinds() {
  std::vector<int> wanted{kind_concurrent_kernel};
  if (timeline::is_on()) wanted.insert(wanted.end(), {kind_memcpy, kind_memset});
  return wanted;
}

int read_clock() {
  uint64_t now = 0;
  int result = cupti.cuptiGetTimestamp != nullptr ? cupti.cuptiGetTimestamp(&now) : not_implemented;
  behind_host_ns = now_ns() - now;
  return result;
}

bool enable(std::string* why) {
  int result = cupti.cuptiActivityRegisterCallbacks(requested, completed);
  for (int kind : kinds())
    if (result == 0) result = cupti.cuptiActivityEnable(kind);
  if (result == 0 && timeline::is_on()) result = read_clock();
  if (result == 0) return true;
  *why = "CUPTI refused: " + result_text(result);
  for (int kind : kinds()) cupti.cuptiActivityDisable(kind);
  return false;
}

bool start(std::string* why) {
  if (is_set("KERNCAP_NO_CUPTI")) {
    *why = "KERNCAP_NO_CUPTI is set";
    return false;
  }
  int version = 0;
  const Driver* d = driver();
  if (d != nullptr && d->cuDriverGetVersion != nullptr) d->cuDriverGetVersion(&version);
  return find_library(version, &cupti, why) && is_free(why) && enable(why);
}

// Comes before what CUPTI itself does at the end: it was loaded before this was registered.
void at_exit() {
  QuietSignals quiet;
  collect(true);
}

void begin() noexcept {
  int expected = undecided;
  if (!state.compare_exchange_strong(expected, starting)) return;
  KeepErrno keep;
  gate::Own own;
  try {
    std::string why;
    if (start(&why)) {
      if (ProcessCapture* known = process_capture()) known->selection.rows().keep_order();
      std::atexit(at_exit);
      state.store(on, std::memory_order_release);
    } else {
      turn_off(why);
    }
  } catch (const std::bad_alloc&) {
    state.store(off);
  }
}

// Another thread starts it. Who is tired of waiting is timed by events; who starts it comes here from its own
// calls, and must not wait for itself.
void await_start() noexcept {
  KeepErrno keep;
  for (int i = 0; i < most_waits && !gate::Own::active() && state.load() == starting; ++i) ::usleep(wait_us);
}

}  // namespace

Span on_host(uint64_t start, uint64_t end) noexcept {
  return {start + behind_host_ns, end + behind_host_ns};
}

bool is_on() noexcept {
  int now = state.load(std::memory_order_acquire);
  if (now == undecided) begin();
  if (now == starting) await_start();
  return state.load(std::memory_order_acquire) == on;
}

uint64_t stream_of(const Launch& launch) noexcept {
  if (!is_on() || cupti.cuptiGetContextId == nullptr || cupti.cuptiGetStreamIdEx == nullptr) return 0;
  gate::Own own;
  bool per_thread = launch.stream == CU_STREAM_PER_THREAD;
  void* stream = per_thread || launch.stream == CU_STREAM_LEGACY ? nullptr : launch.stream;
  uint32_t context_number = 0, stream_number = 0;
  if (cupti.cuptiGetContextId(launch.context, &context_number) != 0 ||
      cupti.cuptiGetStreamIdEx(launch.context, stream, per_thread ? 1 : 0, &stream_number) != 0)
    return 0;
  return uint64_t{context_number} << 32 | stream_number;
}

void collect(bool is_last) noexcept {
  static std::atomic<bool> ended{false};
  if (state.load(std::memory_order_acquire) != on || ended.load()) return;
  if (is_last && ended.exchange(true)) return;
  gate::Own own;
  cupti.cuptiActivityFlushAll(is_last ? flush_forced : 0);
}

void leave() noexcept {
  if (state.load(std::memory_order_acquire) != on) return;
  KeepErrno keep;
  gate::Own own;
  try {
    turn_off("the target has begun to profile itself: from then on by events, until then by CUPTI");
  } catch (const std::bad_alloc&) {
    state.store(off);
  }
  // Before and after: what is not delivered when a kind ends is lost.
  cupti.cuptiActivityFlushAll(flush_forced);
  for (int kind : kinds()) cupti.cuptiActivityDisable(kind);
  cupti.cuptiActivityFlushAll(flush_forced);
}

const char* clock(std::string* reason) {
  int now = state.load(std::memory_order_acquire);
  if (now == on) return word::clock::cupti;
  std::lock_guard<std::mutex> lock(words().mutex);
  *reason = words().why;
  return word::clock::events;
}

void forget_after_fork() noexcept {
  new (&words().mutex) std::mutex;
  // CUDA is gone from the child, and with it CUPTI.
  if (state.load() != undecided) state.store(off);
}

}  // namespace kerncap::cuda::activity
