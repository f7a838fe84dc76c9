#include "queues.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "context_save.h"
#include "driver.h"

namespace amd_gpu {
namespace {

// A thread with nothing to do sleeps for a tenth of the time that it has had nothing to do, then looks at the
// doorbell again: a packet waits little longer than it took to come, and an idle queue costs next to nothing.
// Sleeps and not sched_yield(), which on a busy machine gives the processor away for milliseconds.
void rest(uint64_t idle_since) {
  const uint64_t idle_us = (gpu_clock() - idle_since) / 100;
  const timespec pause{0, static_cast<long>(std::clamp<uint64_t>(idle_us / 10, 1, 2000)) * 1000};
  nanosleep(&pause, nullptr);
}

void run(Queue& queue) {
  pthread_setname_np(pthread_self(), queue.is_aql ? "amd-gpu-aql" : "amd-gpu-sdma");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // in nanoseconds; the usual 50 us is longer than our sleeps
  uint64_t idle_since = gpu_clock();
  while (!queue.stop.load(std::memory_order_acquire)) {
    queue.is_idle.store(queue.suspended.load(std::memory_order_acquire), std::memory_order_release);
    const bool may_run = !queue.halted && !queue.paused && !queue.device->stopped && !queue.is_idle;
    if (may_run && (queue.is_aql ? step_aql(queue) : step_sdma(queue))) {
      idle_since = gpu_clock();
    } else {
      rest(idle_since);
    }
  }
}

}  // namespace

int Queues::create(kfd_ioctl_create_queue_args& arguments) {
  Driver& state = driver();
  Device* const device = state.device(arguments.gpu_id);
  if (device == nullptr) return -EINVAL;
  if (state.failures.queue()) {
    log(0, "a queue is refused: asked for by AMD_GPU_FAIL");
    return -ENOMEM;
  }
  const uint64_t doorbell = state.doorbells.take(device->ordinal);
  if (doorbell == Doorbells::none) return -ENOMEM;
  auto queue = std::make_unique<Queue>();
  queue->device = device;
  queue->type = arguments.queue_type;
  queue->is_aql = arguments.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  queue->ring = arguments.ring_base_address;
  queue->ring_bytes = arguments.ring_size;
  queue->read_pointer = arguments.read_pointer_address;
  queue->write_pointer = arguments.write_pointer_address;
  if (queue->is_aql) {
    queue->save_area = arguments.ctx_save_restore_address;
    queue->save_area_bytes = arguments.ctx_save_restore_size;
    queue->control_stack_bytes = arguments.ctl_stack_size;
  }
  queue->doorbell = arguments.doorbell_offset = doorbell;
  std::lock_guard<std::mutex> guard(mutex_);
  queue->id = arguments.queue_id = next_++;
  log(1, "gpu %u: %s queue %u, ring %#lx of %lu bytes", device->ordinal, queue->is_aql ? "AQL" : "SDMA",
      queue->id, queue->ring, queue->ring_bytes);
  queue->thread = std::thread(run, std::ref(*queue));
  queues_[queue->id] = std::move(queue);
  return 0;
}

int Queues::update(const kfd_ioctl_update_queue_args& arguments) {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = queues_.find(arguments.queue_id);
  if (found == queues_.end()) return -EINVAL;
  found->second->paused = arguments.queue_percentage == 0 || arguments.ring_base_address == 0;
  return 0;
}

int Queues::destroy(uint32_t id) {
  std::unique_ptr<Queue> queue;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = queues_.find(id);
    if (found == queues_.end()) return -EINVAL;
    queue = std::move(found->second);
    queues_.erase(found);
  }
  queue->stop = queue->ends_dispatch = true;
  queue->thread.join();
  driver().doorbells.give_back(queue->doorbell);
  log(1, "queue %u is gone", id);
  return 0;
}

// A kernel that runs is stopped where it is, and its state is saved. It does not go on after resume(): what
// suspends a queue here, ROCr's core dump, ends the process.
int Queues::suspend(uint32_t* ids, uint32_t count, uint64_t clear) {
  std::lock_guard<std::mutex> guard(mutex_);
  int suspended = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const auto found = queues_.find(ids[i]);
    if (found == queues_.end() || (found->second->exceptions & KFD_EC_MASK(EC_QUEUE_NEW)) != 0) {
      ids[i] |= KFD_DBG_QUEUE_INVALID_MASK;
      continue;
    }
    Queue& queue = *found->second;
    queue.exceptions &= ~clear;
    queue.suspended = queue.ends_dispatch = true;
    while (!queue.is_idle.load(std::memory_order_acquire)) rest(gpu_clock());
    save_context(queue);
    ++suspended;
  }
  return suspended;
}

int Queues::resume(uint32_t* ids, uint32_t count) {
  std::lock_guard<std::mutex> guard(mutex_);
  int resumed = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const auto found = queues_.find(ids[i]);
    if (found == queues_.end()) {
      ids[i] |= KFD_DBG_QUEUE_INVALID_MASK;
      continue;
    }
    found->second->suspended = found->second->ends_dispatch = false;
    ++resumed;
  }
  return resumed;
}

void Queues::resume_all() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (auto& [id, queue] : queues_) queue->suspended = queue->ends_dispatch = false;
}

uint32_t Queues::snapshot(uint8_t* entries, uint32_t room, uint32_t entry_bytes, uint32_t stride,
                          uint64_t clear) {
  std::lock_guard<std::mutex> guard(mutex_);
  uint32_t count = 0;
  for (auto& [id, queue] : queues_) {
    if (count++ >= room) continue;
    kfd_queue_snapshot_entry entry{};
    entry.exception_status = queue->exceptions.fetch_and(~clear);
    entry.ring_base_address = queue->ring;
    entry.write_pointer_address = queue->write_pointer;
    entry.read_pointer_address = queue->read_pointer;
    entry.ctx_save_restore_address = queue->save_area;
    entry.queue_id = id;
    entry.gpu_id = queue->device->gpu_id;
    entry.ring_size = static_cast<uint32_t>(queue->ring_bytes);
    entry.queue_type = queue->type;
    entry.ctx_save_restore_area_size = queue->save_area_bytes;
    std::memcpy(entries, &entry, std::min<size_t>(entry_bytes, sizeof entry));
    entries += stride;
  }
  return count;
}

}  // namespace amd_gpu
