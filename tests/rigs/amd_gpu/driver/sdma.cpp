// The copy engines: packets of 32-bit words in a ring, the doorbell is the number of bytes written. Only what
// ROCr submits. Source: the packet definitions in ROCr's sdma_registers.h; the numbers are AMD's SDMA 4.x.
#include <algorithm>
#include <array>
#include <cstring>

#include "faults.h"
#include "signals.h"

namespace amd_gpu {
namespace {

enum Operation : uint32_t {
  nop = 0,
  copy = 1,
  fence = 5,
  trap = 6,
  poll = 8,
  atomic = 10,
  constant_fill = 11,
  timestamp = 13,
  gcr = 17,
};
constexpr uint32_t copy_linear = 0, copy_sub_window = 4;

// A packet's words. Fields are named where they are read.
struct Words {
  std::array<uint32_t, 16> word{};

  uint32_t operator[](size_t index) const { return word[index]; }
  uint64_t address(size_t index) const { return word[index] | static_cast<uint64_t>(word[index + 1]) << 32; }
  uint32_t bits(size_t index, unsigned from, unsigned count) const {
    return word[index] >> from & ((1U << count) - 1);
  }
};

// The length of the packet in words; 0: it waits, or failed (the queue is halted, or the device stopped).
using Length = uint32_t;

bool copy_bytes(Device& device, uint64_t to, uint64_t from, uint64_t bytes) {
  while (bytes != 0) {
    Mapping target, source;
    if (!device.pages.find(from, source)) return memory_fault(device, from, false), false;
    if (!device.pages.find(to, target) || !target.writable) return memory_fault(device, to, true), false;
    const uint64_t into = to - target.device_va, out_of = from - source.device_va;
    const uint64_t part = std::min(bytes, std::min(target.size_bytes - into, source.size_bytes - out_of));
    std::memmove(target.host + into, source.host + out_of, part);
    to += part;
    from += part;
    bytes -= part;
  }
  return true;
}

Length run_copy(Device& device, const Words& words) {
  const uint64_t bytes = static_cast<uint64_t>(words.bits(1, 0, 30)) + 1;
  log(2, "gpu %u: copy %lu bytes, %#lx to %#lx", device.ordinal, bytes, words.address(3), words.address(5));
  return copy_bytes(device, words.address(5), words.address(3), bytes) ? 7 : 0;
}

// A box of elements out of one pitched array into another.
Length run_sub_window(Device& device, const Words& words) {
  struct Side {
    uint64_t base, x, y, z, pitch, slice;
    uint64_t at(uint64_t row, uint64_t plane) const { return x + (y + row) * pitch + (z + plane) * slice; }
  };
  const uint64_t element = 1U << words.bits(0, 29, 3);
  const auto side = [&words](size_t first) {
    return Side{words.address(first),
                words.bits(first + 2, 0, 14),
                words.bits(first + 2, 16, 14),
                words.bits(first + 3, 0, 11),
                static_cast<uint64_t>(words.bits(first + 3, 13, 19)) + 1,
                static_cast<uint64_t>(words.bits(first + 4, 0, 28)) + 1};
  };
  const Side source = side(1), target = side(6);
  const uint64_t width = words.bits(11, 0, 14) + 1, height = words.bits(11, 16, 14) + 1;
  const uint64_t depth = words.bits(12, 0, 11) + 1;
  for (uint64_t plane = 0; plane < depth; ++plane) {
    for (uint64_t row = 0; row < height; ++row) {
      const uint64_t to = target.base + element * target.at(row, plane);
      const uint64_t from = source.base + element * source.at(row, plane);
      if (!copy_bytes(device, to, from, width * element)) return 0;
    }
  }
  return 13;
}

Length run_fill(Device& device, const Words& words) {
  const uint64_t va = words.address(1), bytes = static_cast<uint64_t>(words.bits(4, 0, 22)) + 1;
  for (uint64_t done = 0; done < bytes; done += sizeof(uint32_t)) {
    auto* const word = device_object<uint32_t>(device, va + done);
    if (word == nullptr) return memory_fault(device, va + done, true), 0;
    *word = words[3];
  }
  return 5;
}

bool compare(uint32_t function, uint32_t value, uint32_t wanted) {
  switch (function) {
    case 1:
      return value < wanted;
    case 2:
      return value <= wanted;
    case 3:
      return value == wanted;
    case 4:
      return value != wanted;
    case 5:
      return value >= wanted;
    case 6:
      return value > wanted;
    default:
      return true;
  }
}

// Waits for a word in memory; without the memory bit it polls a register, and those are always ready.
Length run_poll(Device& device, const Words& words) {
  if (words.bits(0, 31, 1) == 0) return 6;
  const auto* const word = device_object<uint32_t>(device, words.address(1));
  if (word == nullptr) return memory_fault(device, words.address(1), false), 0;
  return compare(words.bits(0, 28, 3), __atomic_load_n(word, __ATOMIC_ACQUIRE) & words[4], words[3]) ? 6 : 0;
}

template <class T>
Length run_write(Device& device, uint64_t va, T value, Length length) {
  auto* const place = device_object<T>(device, va);
  if (place == nullptr) return memory_fault(device, va, true), 0;
  __atomic_store_n(place, value, __ATOMIC_RELEASE);
  return length;
}

Length run_add(Device& device, const Words& words) {
  auto* const place = device_object<uint64_t>(device, words.address(1));
  if (place == nullptr) return memory_fault(device, words.address(1), true), 0;
  __atomic_fetch_add(place, words.address(3), __ATOMIC_ACQ_REL);
  return 8;
}

Length run(Queue& queue, const Words& words) {
  Device& device = *queue.device;
  const uint32_t operation = words.bits(0, 0, 8), variant = words.bits(0, 8, 8);
  switch (operation) {
    case nop:
      return 1 + words.bits(0, 16, 14);
    case copy:
      if (variant == copy_linear) return run_copy(device, words);
      if (variant == copy_sub_window) return run_sub_window(device, words);
      break;
    case fence:
      return run_write<uint32_t>(device, words.address(1), words[3], 4);
    case trap:
      driver().events.set(words.bits(1, 0, 28));
      return 2;
    case poll:
      return run_poll(device, words);
    case atomic:
      return run_add(device, words);
    case constant_fill:
      return run_fill(device, words);
    case timestamp:
      return run_write<uint64_t>(device, words.address(1), gpu_clock(), 3);
    case gcr:
      return 5;  // cache control: there is no cache
    default:
      break;
  }
  log(0, "queue %u: SDMA operation %u.%u is not emulated", queue.id, operation, variant);
  queue.halted = true;
  return 0;
}

}  // namespace

bool step_sdma(Queue& queue) {
  Device& device = *queue.device;
  auto* const read = device_object<uint64_t>(device, queue.read_pointer);
  if (read == nullptr) return false;
  const auto* const doorbell = reinterpret_cast<int64_t*>(driver().doorbells.at(queue.doorbell));
  const int64_t written = __atomic_load_n(doorbell, __ATOMIC_ACQUIRE);
  const uint64_t at = *read;
  if (written == -1 || at >= static_cast<uint64_t>(written)) return false;
  Words words;
  for (size_t i = 0; i < words.word.size(); ++i) {
    const uint64_t offset = (at + i * sizeof(uint32_t)) % queue.ring_bytes;
    if (const auto* word = device_object<uint32_t>(device, queue.ring + offset)) words.word[i] = *word;
  }
  const Length length = run(queue, words);
  if (length == 0) return false;
  __atomic_store_n(read, at + length * sizeof(uint32_t), __ATOMIC_RELEASE);
  return true;
}

}  // namespace amd_gpu
