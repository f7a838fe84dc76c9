#include "cuda/stream_order.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <vector>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/registry.h"

namespace kerncap::cuda::stream_order {

KERNCAP_READ_BY_EACH_CALL std::atomic<bool> recording{false};

namespace {

constexpr size_t most = 1U << 16;  // between two launches: beyond that the order is not recorded

struct Noted {
  Call call;
  uint64_t thread, stream, context, event;  // stream: the driver's number; 0: none
  const char* kind;                         // of the stream
};

struct Log {
  std::mutex mutex;
  std::vector<Noted> calls;
  bool is_lost = false, is_over = false;
};

Log& log() noexcept {
  static auto* instance = new Log;
  return *instance;
}

const char* name_of(Call call) noexcept {
  switch (call) {
    case Call::launch:
      return word::stream_call::launch;
    case Call::record:
      return word::stream_call::record;
    case Call::wait:
      return word::stream_call::wait;
    case Call::forget:
      return word::stream_call::forget;
    case Call::synchronize:
      return word::stream_call::synchronize;
    case Call::synchronize_event:
      return word::stream_call::synchronize_event;
    case Call::synchronize_all:
      return word::stream_call::synchronize_all;
    case Call::work:
      return word::stream_call::work;
    default:
      return word::stream_call::unknown;
  }
}

Noted on_thread(Call call, CUevent event) noexcept {
  return {call, static_cast<uint64_t>(syscall(SYS_gettid)), 0, 0, reinterpret_cast<uint64_t>(event), nullptr};
}

// A number is never given again, a handle is.
void describe(CUstream stream, Noted* noted) noexcept {
  gate::Own own;
  const Driver& d = *driver();
  unsigned long long number = 0;
  unsigned int flags = 0;
  noted->context = reinterpret_cast<uint64_t>(context_of(stream, false));
  bool known = d.cuStreamGetId != nullptr && d.cuStreamGetId(stream, &number) == CUDA_SUCCESS && number != 0;
  noted->stream = known ? number : reinterpret_cast<uint64_t>(stream);
  if (stream == CU_STREAM_LEGACY)
    noted->kind = word::stream_kind::legacy;
  else if (d.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && (flags & CU_STREAM_NON_BLOCKING) != 0)
    noted->kind = word::stream_kind::non_blocking;
  else
    noted->kind = word::stream_kind::blocking;
}

void add(const Noted& noted) noexcept {
  Log& all = log();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.is_lost || !recording.load(std::memory_order_relaxed)) return;
  try {
    if (all.calls.size() < most) {
      all.calls.push_back(noted);
      return;
    }
  } catch (const std::bad_alloc&) {
    // As if there were too many.
  }
  all.is_lost = true;
  all.calls.clear();
}

CUstream handle_of(CUstream stream, bool per_thread) noexcept {
  if (stream != nullptr) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

}  // namespace

void note(Call call, CUevent event) noexcept {
  add(on_thread(call, event));
}

void note(Call call, CUstream stream, bool per_thread, CUevent event) noexcept {
  note(call, stream, per_thread, reinterpret_cast<uint64_t>(event));
}

// What a stream captures runs when its graph is launched.
void note(Call call, CUstream stream, bool per_thread, uint64_t event) noexcept {
  if (captures_now(stream, per_thread)) return;
  Noted noted = on_thread(call, nullptr);
  noted.event = event;
  describe(handle_of(stream, per_thread), &noted);
  add(noted);
}

void note_branch(Call call, uint64_t branch, CUcontext context, uint64_t event) noexcept {
  Noted noted = on_thread(call, nullptr);
  noted.stream = branch;
  noted.context = reinterpret_cast<uint64_t>(context);
  noted.event = event;
  noted.kind = word::stream_kind::non_blocking;
  add(noted);
}

void begin() noexcept {
  recording.store(true);
}

void end() noexcept {
  Log& all = log();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.is_over = true;
  recording.store(false);
}

void write(json::Writer& json, const Launch& launch, bool is_last) noexcept {
  recording.store(true);
  if (launch.branch != 0)
    note_branch(Call::launch, launch.branch, static_cast<CUcontext>(launch.context), 0);
  else
    note(Call::launch, static_cast<CUstream>(launch.stream), false);
  Log& all = log();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.is_over = all.is_over || is_last;
  recording.store(!all.is_over);
  if (all.is_lost) return;
  json.key(key::order).begin_array();
  for (const Noted& noted : all.calls) {
    json.begin_object().field(key::call, name_of(noted.call)).field(key::thread, noted.thread);
    if (noted.event != 0) json.field(key::event, noted.event);
    if (noted.stream != 0)
      json.field(key::stream_number, noted.stream)
          .field(key::stream_kind, noted.kind)
          .field(key::context, noted.context);
    json.end();
  }
  json.end();
  all.calls.clear();
}

void lock() noexcept {
  log().mutex.lock();
}

void unlock() noexcept {
  log().mutex.unlock();
}

void forget_after_fork() noexcept {
  recording.store(false);
  log().calls.clear();
  log().is_lost = log().is_over = false;
}

}  // namespace kerncap::cuda::stream_order
