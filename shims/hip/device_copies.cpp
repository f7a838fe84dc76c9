// Copies: through a ring in the host's memory that every agent may reach.
#include <algorithm>
#include <cstring>

#include "common/clock.h"
#include "common/glibc_floor.h"
#include "common/memory_map.h"
#include "hip/device.h"
#include "hip/faults.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

constexpr uint64_t wait_ns = 60 * second_ns;

void* pointer(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

}  // namespace

bool HipDevice::make_signal(Signal* signal) noexcept {
  return good(hsa()->hsa_signal_create(0, 0, nullptr, signal));
}

bool HipDevice::prepare(std::string* why) {
  MemoryMap::instance().thaw();  // all that is known now may be read
  if (ring_ != nullptr) return true;
  const Hsa& real = *hsa();
  const Agents* all = agents();
  void* memory = nullptr;
  bool made = all != nullptr && all->staging.handle != 0 &&
              good(real.hsa_amd_memory_pool_allocate(all->staging, ring_buffers * buffer_bytes, 0, &memory));
  if (made) {
    std::vector<Agent> gpus;
    for (const Gpu& gpu : all->gpus) gpus.push_back(gpu.agent);
    made = good(
        real.hsa_amd_agents_allow_access(static_cast<uint32_t>(gpus.size()), gpus.data(), nullptr, memory));
  }
  while (made && slots_.size() <= ring_buffers) {
    Signal signal{};
    made = make_signal(&signal);
    if (made) slots_.push_back(signal);
  }
  if (made) {
    ring_ = static_cast<uint8_t*>(memory);
    return true;
  }
  if (memory != nullptr) real.hsa_amd_memory_pool_free(memory);
  *why = "host memory for copying: " + error_text(status());
  return false;
}

bool HipDevice::start_copy(Signal done, void* to, Agent to_agent, const void* from, Agent from_agent,
                           size_t size) {
  const Hsa& real = *hsa();
  real.hsa_signal_store_relaxed(done, 1);
  // Both agents named: what is mapped for a device alone must be moved by one.
  if (good(real.hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, 0, nullptr, done)))
    return true;
  real.hsa_signal_store_relaxed(done, 0);
  return false;
}

Poll HipDevice::poll_signal(Signal signal) noexcept {
  SignalValue value = hsa()->hsa_signal_load_scacquire(signal);
  if (value == 0) return Poll::done;
  if (value > 0 && hip::sticky_error() == 0) return Poll::pending;
  good(value < 0 ? constant::error : hip::sticky_error());
  return Poll::failed;
}

bool HipDevice::wait(Signal signal) noexcept {
  uint64_t deadline = now_ns() + wait_ns;
  for (Backoff backoff;; backoff.pause()) {
    Poll poll = poll_signal(signal);
    if (poll != Poll::pending) return poll == Poll::done;
    if (now_ns() >= deadline) return good(constant::error);
  }
}

bool HipDevice::start_read(size_t slot, int device, uint64_t address, size_t size) {
  const Gpu* from = gpu(device);
  if (from == nullptr) return good(constant::error);
  if (is_shared(address)) {
    std::memcpy(buffer(slot), pointer(address), size);
    return true;  // its signal says that nothing is under way
  }
  return start_copy(slots_[slot], buffer(slot), agents()->host, pointer(address), from->agent, size);
}

Poll HipDevice::poll(size_t slot) {
  return poll_signal(slots_[slot]);
}

bool HipDevice::write(int device, uint64_t address, const uint8_t* bytes, size_t size) {
  const Gpu* to = gpu(device);
  if (to == nullptr) return good(constant::error);
  if (is_shared(address)) {
    std::memcpy(pointer(address), bytes, size);
    return true;
  }
  for (size_t at = 0; at < size;) {
    size_t part = std::min(size - at, buffer_bytes);
    std::memcpy(buffer(0), bytes + at, part);
    Signal done = slots_[ring_buffers];
    if (!start_copy(done, pointer(address + at), to->agent, buffer(0), agents()->host, part) || !wait(done))
      return false;
    at += part;
  }
  return true;
}

uint64_t HipDevice::clone_room(int device, uint64_t size) {
  const Hsa& real = *hsa();
  const Gpu* on = gpu(device);
  uint64_t free = 0;
  void* memory = nullptr;
  if (on == nullptr || on->local.handle == 0) return 0;
  if (real.hsa_agent_get_info(on->agent, constant::agent_memory_available, &free) != constant::success ||
      free / 2 < size)
    return 0;
  if (real.hsa_amd_memory_pool_allocate(on->local, size, 0, &memory) != constant::success) return 0;
  return reinterpret_cast<uint64_t>(memory);
}

void HipDevice::free_clone(int, uint64_t address) noexcept {
  if (const Hsa* real = hsa()) real->hsa_amd_memory_pool_free(pointer(address));
}

bool HipDevice::copy(int device, uint64_t to, uint64_t from, uint64_t size) {
  const Gpu* on = gpu(device);
  if (on == nullptr) return good(constant::error);
  for (auto& [signal, under_way] : copies_) {
    if (under_way) continue;
    under_way = start_copy(signal, pointer(to), on->agent, pointer(from), on->agent, size);
    return under_way;
  }
  Signal signal{};
  if (!make_signal(&signal)) return false;
  copies_.emplace_back(signal, true);
  return start_copy(signal, pointer(to), on->agent, pointer(from), on->agent, size);
}

bool HipDevice::finish_copies() {
  bool finished = true;
  for (auto& [signal, under_way] : copies_) {
    if (!under_way) continue;
    under_way = false;
    finished = wait(signal) && finished;
  }
  return finished;
}

// A copy within the ring: harmless, and the device's copy engine is busy while the launch that follows runs.
void HipDevice::disturb(unsigned round) noexcept {
  const Agents* all = agents();
  if (all == nullptr || ring_ == nullptr || round == 0) return;
  const Gpu* any = all->gpus.empty() ? nullptr : &all->gpus[0];
  Signal done = slots_[ring_buffers];
  if (any == nullptr || poll_signal(done) != Poll::done) return;
  start_copy(done, buffer(1), any->agent, buffer(2), any->agent, buffer_bytes / (round + 1));
}

}  // namespace kerncap::hip
