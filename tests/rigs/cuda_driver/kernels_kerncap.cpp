// Host functions for kerncap's own device kernels, so that the ways over the device are tested too.
// What each does is said in replay/worker/cuda/memory_kernels.py and shims/cuda/kernels.
#include <algorithm>
#include <cstring>
#include <thread>

#include "rig.h"

#define KERNEL(name) \
  extern "C" __attribute__((visibility("default"))) void rig_kernel_##name(const rig_launch* launch)

namespace {

uint64_t word(const rig_launch* launch, size_t index) {
  return rig_parameter<uint64_t>(launch, index);
}

// Eight bytes a thread: how far the launch reaches.
uint64_t reach(const rig_launch* launch, uint64_t size) {
  uint64_t threads = uint64_t{launch->grid[0]} * launch->block[0] * 8;
  return threads < size ? threads : size;
}

}  // namespace

KERNEL(kerncap_pattern) {
  uint64_t offset = word(launch, 1), size = word(launch, 2), key = word(launch, 3), invert = word(launch, 4);
  auto* out = rig_array<uint8_t>(word(launch, 0), size);
  uint64_t threads = uint64_t{launch->grid[0]} * launch->block[0], first = offset / 8;
  for (uint64_t unit = first; unit - first < threads && unit * 8 < offset + size; ++unit) {
    uint64_t x = (unit + key) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = x ^ (x >> 27) ^ invert;
    uint64_t begin = std::max(unit * 8, offset), end = std::min(unit * 8 + 8, offset + size);
    if (end - begin == sizeof x) {
      std::memcpy(out + (begin - offset), &x, sizeof x);
    } else {
      x >>= begin % 8 * 8;
      std::memcpy(out + (begin - offset), &x, end - begin);
    }
  }
}

KERNEL(kerncap_compare) {
  uint64_t size = reach(launch, word(launch, 2)), differing = 0;
  auto* a = rig_array<uint8_t>(word(launch, 0), size);
  auto* b = rig_array<uint8_t>(word(launch, 1), size);
  uint8_t* bitmap = word(launch, 3) ? rig_array<uint8_t>(word(launch, 3), (size + 7) / 8) : nullptr;
  for (uint64_t byte = 0; byte < (size + 7) / 8; ++byte) {
    uint8_t bits = 0;
    uint64_t first = byte * 8, end = std::min(first + 8, size);
    for (uint64_t i = std::memcmp(a + first, b + first, end - first) ? first : end; i < end; ++i)
      if (a[i] != b[i]) bits = static_cast<uint8_t>(bits | 1 << (i % 8)), ++differing;
    if (bitmap) bitmap[byte] = bits;
  }
  if (word(launch, 4))
    __atomic_fetch_add(rig_array<uint64_t>(word(launch, 4), 1), differing, __ATOMIC_RELAXED);
}

KERNEL(kerncap_merge) {
  uint64_t size = reach(launch, word(launch, 2));
  auto* to = rig_array<uint8_t>(word(launch, 0), size);
  auto* from = rig_array<uint8_t>(word(launch, 1), size);
  auto* bitmap = rig_array<uint8_t>(word(launch, 3), (size + 7) / 8);
  for (uint64_t i = 0; i < size; ++i)
    if (bitmap[i / 8] >> (i % 8) & 1) to[i] = from[i];
}

KERNEL(kerncap_keep) {
  uint64_t run = word(launch, 4);
  auto* counters = rig_array<uint64_t>(word(launch, 3), run + 1);
  if (!counters[run]) return;
  for (uint64_t i = 0; i < run; ++i)
    if (counters[i]) return;
  uint64_t size = reach(launch, word(launch, 2));
  std::memmove(rig_array<uint8_t>(word(launch, 0), size), rig_array<uint8_t>(word(launch, 1), size), size);
}

// A launch here ends before the next is queued.
KERNEL(kerncap_hold) {
  (void)launch;
}

// --- of the shim (shims/cuda/kernels/snapshot.cu) -------------------------------------------------

KERNEL(kerncap_fingerprint) {
  uint64_t base = word(launch, 0), size = word(launch, 1), chunk_bytes = word(launch, 2),
           first = word(launch, 3);
  auto* out = rig_array<uint64_t>(word(launch, 4), launch->grid[0] * 3);
  for (uint64_t block = 0; block < launch->grid[0]; ++block) {
    uint64_t start = (first + block) * chunk_bytes;
    uint64_t length = size - start < chunk_bytes ? size - start : chunk_bytes;
    auto* bytes = rig_array<uint8_t>(base + start, length);
    uint64_t sums[3] = {};
    for (uint64_t i = 0; i < (length + 7) / 8; ++i) {
      uint64_t value = 0;  // the last one is filled up with zeros
      std::memcpy(&value, bytes + i * 8, length - i * 8 < 8 ? length - i * 8 : 8);
      uint64_t x = value + (i + 1) * 0x9E3779B97F4A7C15u;
      x = (x ^ (x >> 32)) * 0xFF51AFD7ED558CCDu;
      x ^= x >> 29;
      sums[0] += x;
      x *= 0xC4CEB9FE1A85EC53u;
      sums[1] += x ^ (x >> 32);
      sums[2] |= value;
    }
    std::memcpy(out + block * 3, sums, sizeof sums);
  }
}

KERNEL(kerncap_copy) {
  uint64_t size = word(launch, 2);
  std::memmove(rig_span(word(launch, 0), size), rig_span(word(launch, 1), size), size);
}

KERNEL(kerncap_stop) {
  auto* words = rig_array<uint64_t>(word(launch, 0), 3);
  uint64_t arrival = words[0] + 1;
  words[1] = word(launch, 1);
  __atomic_store_n(&words[0], arrival, __ATOMIC_RELEASE);
  while (__atomic_load_n(&words[2], __ATOMIC_ACQUIRE) < arrival) std::this_thread::yield();
}

KERNEL(kerncap_mark) {
  (void)launch;
  rig_print("\1");
}

KERNEL(kerncap_scan) {
  uint64_t at = word(launch, 0), count = word(launch, 1), intervals = word(launch, 3);
  auto* words = rig_array<uint64_t>(at, count);
  auto* table = rig_array<uint64_t>(word(launch, 2), intervals * 2);
  auto* sources = rig_array<uint64_t>(word(launch, 4), intervals);
  for (uint64_t i = 0; i < count; ++i)
    for (uint64_t k = 0; k < intervals; ++k)
      if (words[i] >= table[2 * k] && words[i] < table[2 * k + 1] && at + i * 8 < sources[k])
        sources[k] = at + i * 8;
}
