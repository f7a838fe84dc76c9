#include "queues.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

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
    const bool may_run = !queue.halted && !queue.paused && !queue.device->stopped;
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
  queue->is_aql = arguments.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  queue->ring = arguments.ring_base_address;
  queue->ring_bytes = arguments.ring_size;
  queue->read_pointer = arguments.read_pointer_address;
  queue->write_pointer = arguments.write_pointer_address;
  queue->save_area = queue->is_aql ? arguments.ctx_save_restore_address : 0;
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
  queue->stop = true;
  queue->thread.join();
  driver().doorbells.give_back(queue->doorbell);
  log(1, "queue %u is gone", id);
  return 0;
}

}  // namespace amd_gpu
