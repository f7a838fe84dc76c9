#include "hip/copies.h"

#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "common/glibc_floor.h"
#include "hip/device.h"
#include "hip/tables.h"

namespace kerncap::hip::copies {

std::atomic<bool> any{false};

namespace {

constexpr size_t places = 256, probes = 8;

// `handle` alone is read without the lock, by stores to signals: on every doorbell.
struct Place {
  std::atomic<uint64_t> handle{0};
  SignalValue value = 0;  // before the first of them
  SignalValue count = 0;  // copies that count it down
  Copied copied;
};

Place table[places];
std::mutex& mutex() noexcept {
  static auto* made = new std::mutex;
  return *made;
}

size_t first_place(uint64_t handle) noexcept {
  return (handle * 0x9E3779B97F4A7C15ULL >> 32) % places;
}

bool is_done(const Hsa& real, const Place& place) noexcept {
  SignalValue value = real.hsa_signal_load_scacquire({place.handle.load(std::memory_order_relaxed)});
  return value <= place.value - place.count;
}

// One that is done goes on the timeline. The runtime keeps the time of a signal's last copy.
void note(const Hsa& real, Place& place) noexcept try {
  Copied copied = std::exchange(place.copied, {});
  DispatchTime time{};
  Span span;
  if (copied.bytes == 0 || place.count != 1 || real.hsa_amd_profiling_get_async_copy_time == nullptr ||
      !is_done(real, place) ||
      real.hsa_amd_profiling_get_async_copy_time({place.handle.load()}, &time) != constant::success ||
      time.end <= time.start || !times::on_host(real, time.start, time.end, &span))
    return;
  static constexpr const char* directions[2][2] = {{"host to host", "host to device"},
                                                   {"device to host", "device to device"}};
  timeline::Thing thing{word::timed::copy, directions[copied.from >= 0][copied.to >= 0], {}, {}};
  thing.device = copied.to < 0 ? copied.from : copied.to;
  thing.stream = "copies";
  timeline::add(timeline::meet(thing), span, copied.bytes);
} catch (const std::bad_alloc&) {
  // The timeline lacks it.
}

// The place's signal is not watched any more.
void clear(const Hsa* real, Place& place) noexcept {
  if (real != nullptr) note(*real, place);
  place.handle.store(0, std::memory_order_relaxed);
}

Place* find(uint64_t handle) noexcept {
  for (size_t i = 0, at = first_place(handle); i < probes; ++i, at = (at + 1) % places)
    if (table[at].handle.load(std::memory_order_relaxed) == handle) return &table[at];
  return nullptr;
}

// If all are still under way, one of them is watched no longer: there are eight for one bucket.
Place& free_place(const Hsa& real, uint64_t handle) noexcept {
  size_t first = first_place(handle);
  for (size_t i = 0, at = first; i < probes; ++i, at = (at + 1) % places)
    if (table[at].handle.load() == 0 || is_done(real, table[at])) return table[at];
  return table[first];
}

}  // namespace

void begin(Signal done, const Copied& copied) noexcept {
  const Hsa* real = hsa();
  if (real == nullptr || done.handle == 0) return;
  std::lock_guard<std::mutex> lock(mutex());
  Place* place = find(done.handle);
  if (place == nullptr || is_done(*real, *place)) {
    if (place == nullptr) place = &free_place(*real, done.handle);
    if (place->handle.load() != 0) note(*real, *place);
    place->value = real->hsa_signal_load_scacquire(done);
    place->count = 0;
    place->handle.store(done.handle, std::memory_order_relaxed);
    if (timeline::is_on()) place->copied = copied;
  }
  ++place->count;
  any.store(true, std::memory_order_relaxed);
}

void abandon(Signal done) noexcept {
  if (done.handle == 0) return;
  std::lock_guard<std::mutex> lock(mutex());
  Place* place = find(done.handle);
  if (place != nullptr && --place->count == 0) place->handle.store(0, std::memory_order_relaxed);
}

void forget_known(Signal signal) noexcept {
  if (signal.handle == 0 || find(signal.handle) == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex());
  Place* place = find(signal.handle);
  if (place != nullptr) clear(hsa(), *place);
}

bool all_done() noexcept {
  const Hsa* real = hsa();
  if (real == nullptr) return true;
  // A signal is destroyed only after it was forgotten, which takes this lock.
  std::lock_guard<std::mutex> lock(mutex());
  bool left = false;
  for (Place& place : table) {
    if (place.handle.load(std::memory_order_relaxed) == 0) continue;
    if (is_done(*real, place))
      clear(real, place);
    else
      left = true;
  }
  any.store(left, std::memory_order_relaxed);
  return !left;
}

void reset() noexcept {
  for (Place& place : table) place.handle.store(0, std::memory_order_relaxed);
  any.store(false);
}

void lock() noexcept {
  mutex().lock();
}
void unlock() noexcept {
  mutex().unlock();
}

}  // namespace kerncap::hip::copies
