// Streams, contexts, stream captures.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <unordered_map>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/memory_map.h"
#include "cuda/driver.h"
#include "cuda/registry.h"
#include "cuda/registry_textures.h"

namespace kerncap::cuda {

KERNCAP_READ_BY_EACH_CALL std::atomic<int> detail::stream_captures{0};
std::atomic<CUcontext> detail::known_contexts[64] = {};

namespace {

// A stream that captures. The per-thread default stream is another one in each thread.
struct Capturing {
  CUstream stream;
  const void* thread;
};

struct Streams {
  std::mutex mutex;
  std::unordered_map<CUstream, CUcontext> streams;
  std::vector<ContextEntry> contexts;
  uint64_t serial = 0;
  std::vector<Capturing> capturing;
};

Streams& state() noexcept {
  static auto* instance = new Streams;
  return *instance;
}

Capturing key_of(CUstream stream, bool per_thread) noexcept {
  static thread_local char self;
  bool own = stream == CU_STREAM_PER_THREAD || (per_thread && stream == nullptr);
  return {own ? CU_STREAM_PER_THREAD : stream, own ? &self : nullptr};
}

void drop_capture(const Capturing& key) noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = std::find_if(all.capturing.begin(), all.capturing.end(), [&](const Capturing& entry) {
    return entry.stream == key.stream && entry.thread == key.thread;
  });
  if (found == all.capturing.end()) return;
  all.capturing.erase(found);
  detail::stream_captures.fetch_sub(1, std::memory_order_acq_rel);
}

CUcontext current_context() noexcept {
  const Driver* real = driver();
  CUcontext context = nullptr;
  gate::Own own;
  if (real == nullptr || real->cuCtxGetCurrent == nullptr || real->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
    return nullptr;
  return context;
}

int ordinal_of(CUdevice device) noexcept {
  const Driver* real = driver();
  int count = 0;
  gate::Own own;
  if (real == nullptr || real->cuDeviceGetCount == nullptr || real->cuDeviceGet == nullptr ||
      real->cuDeviceGetCount(&count) != CUDA_SUCCESS)
    return device;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice candidate = -1;
    if (real->cuDeviceGet(&candidate, ordinal) == CUDA_SUCCESS && candidate == device) return ordinal;
  }
  return device;
}

// It is at its place then.
bool is_known(CUcontext context) noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const ContextEntry& entry : all.contexts) {
    if (entry.context != context || entry.device < 0) continue;
    detail::place_of(context).store(context, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace

void note_stream(CUstream stream) noexcept {
  CUcontext context = context_of(stream, false);
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.streams[stream] = context;
}

void forget_stream(CUstream stream) noexcept {
  Streams& all = state();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    all.streams.erase(stream);
  }
  drop_capture({stream, nullptr});
}

void note_context(CUcontext context, int device) noexcept {
  int ordinal = ordinal_of(device);
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  detail::place_of(context).store(context, std::memory_order_relaxed);
  for (ContextEntry& entry : all.contexts) {
    if (entry.context != context) continue;
    entry.device = ordinal;
    return;
  }
  all.contexts.push_back({context, ordinal, ++all.serial});
}

void note_current_context() noexcept {
  const Driver* real = driver();
  CUcontext context = current_context();
  if (context == nullptr || real->cuCtxGetDevice == nullptr || is_known(context)) return;
  CUdevice device = -1;
  gate::Own own;
  if (real->cuCtxGetDevice(&device) == CUDA_SUCCESS) note_context(context, device);
}

void forget_context(CUcontext context) noexcept {
  forget_textures(context);
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (detail::place_of(context).load(std::memory_order_relaxed) == context)
    detail::place_of(context).store(nullptr, std::memory_order_relaxed);
  for (auto entry = all.streams.begin(); entry != all.streams.end();)
    entry = entry->second == context ? all.streams.erase(entry) : std::next(entry);
  all.contexts.erase(std::remove_if(all.contexts.begin(), all.contexts.end(),
                                    [&](const ContextEntry& entry) { return entry.context == context; }),
                     all.contexts.end());
}

void forget_device(int device) noexcept {
  std::vector<CUcontext> gone;
  for (const ContextEntry& entry : contexts())
    if (entry.device == device) gone.push_back(entry.context);
  for (CUcontext context : gone) forget_context(context);
  forget_device_modules(device);
  MemoryMap::instance().clear_device(device);
}

CUcontext context_of(CUstream stream, bool per_thread) noexcept {
  const Driver* real = driver();
  auto ask = per_thread ? real->cuStreamGetCtx_ptsz : real->cuStreamGetCtx;
  CUcontext context = nullptr;
  gate::Own own;
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || ask == nullptr ||
      ask(stream, &context) != CUDA_SUCCESS || context == nullptr)
    return current_context();
  return context;
}

int device_of(CUcontext context) noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const ContextEntry& entry : all.contexts)
    if (entry.context == context) return entry.device;
  return -1;
}

bool captures_now(CUstream stream, bool per_thread) noexcept {
  if (!is_capturing()) return false;
  gate::Own own;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const Driver* real = driver();
  auto ask = per_thread ? real->cuStreamIsCapturing_ptsz : real->cuStreamIsCapturing;
  return ask != nullptr && ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUgraphNode captured_last(CUstream stream, bool per_thread) noexcept {
  const Driver* real = driver();
  auto ask = real->cuStreamGetCaptureInfo_v2;
  if (ask == nullptr) return nullptr;
  gate::Own own;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  if (per_thread && stream == nullptr) stream = CU_STREAM_PER_THREAD;
  if (ask(stream, &status, nullptr, nullptr, &nodes, &count) != CUDA_SUCCESS || count != 1) return nullptr;
  return nodes[0];
}

int current_device() noexcept {
  CUcontext context = current_context();
  int device = context == nullptr ? -1 : device_of(context);
  if (device >= 0 || context == nullptr) return device;
  note_current_context();
  return device_of(context);
}

std::vector<CUstream> streams_of(CUcontext context) noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<CUstream> found;
  for (const auto& [stream, owner] : all.streams)
    if (owner == context) found.push_back(stream);
  return found;
}

std::vector<ContextEntry> contexts() noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.contexts;
}

uint64_t context_serial(CUcontext context) noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const ContextEntry& entry : all.contexts)
    if (entry.context == context) return entry.serial;
  return 0;
}

void begin_stream_capture(CUstream stream, bool per_thread) noexcept {
  Streams& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.capturing.push_back(key_of(stream, per_thread));
  detail::stream_captures.fetch_add(1, std::memory_order_acq_rel);
}

void abandon_stream_capture(CUstream stream, bool per_thread) noexcept {
  drop_capture(key_of(stream, per_thread));
}

void end_stream_capture(CUstream stream, bool per_thread) noexcept {
  const Driver* real = driver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  gate::Own own;
  auto ask = per_thread ? real->cuStreamIsCapturing_ptsz : real->cuStreamIsCapturing;
  // Called from the wrong thread, or for a stream that doesn't capture, the driver refuses and the
  // capture goes on; an invalid one it ends, and reports that.
  if (ask != nullptr && ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
    return;
  drop_capture(key_of(stream, per_thread));
}

namespace detail {
void lock_streams() noexcept {
  state().mutex.lock();
}
void unlock_streams() noexcept {
  state().mutex.unlock();
}
void forget_streams_after_fork() noexcept {
  Streams& all = state();
  all.streams.clear();
  all.contexts.clear();
  all.capturing.clear();
  for (std::atomic<CUcontext>& place : known_contexts) place.store(nullptr, std::memory_order_relaxed);
  stream_captures.store(0, std::memory_order_release);
}
}  // namespace detail

}  // namespace kerncap::cuda
