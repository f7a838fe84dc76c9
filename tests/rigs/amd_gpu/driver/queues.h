// Queues of the GPU, one thread each: it watches the doorbell and runs the packets in their order.
#ifndef KERNCAP_AMD_GPU_QUEUES_H
#define KERNCAP_AMD_GPU_QUEUES_H

#include <linux/kfd_ioctl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../gpu.h"
#include "doorbells.h"

namespace amd_gpu {

struct Device;

struct Queue {
  uint32_t id = 0;
  Device* device = nullptr;
  bool is_aql = true;  // else SDMA
  // Addresses as the GPU sees them. A read pointer counts packets (AQL) or bytes (SDMA).
  uint64_t ring = 0, ring_bytes = 0, read_pointer = 0, write_pointer = 0;
  uint32_t type = 0;       // KFD_IOC_QUEUE_TYPE_*
  uint64_t save_area = 0;  // kfd_context_save_area_header, on the host; 0: none
  uint32_t save_area_bytes = 0, control_stack_bytes = 0;
  uint64_t doorbell = 0;            // offset in the doorbell file
  std::atomic<bool> stop{false};    // being destroyed
  std::atomic<bool> paused{false};  // AMDKFD_IOC_UPDATE_QUEUE with no ring or nothing of the GPU
  std::atomic<bool> halted{false};  // after an error, for good
  std::atomic<bool> suspended{false}, is_idle{false};  // by a debugger; whether its thread has seen that
  std::atomic<bool> ends_dispatch{false};              // `stop` or `suspended`, for the dispatch that runs
  std::atomic<uint64_t> exceptions{KFD_EC_MASK(EC_QUEUE_NEW)};
  // What was on the GPU when the dispatch of that packet stopped.
  std::vector<WaveState> waves;
  uint32_t packet_index = 0;
  std::thread thread;
};

// Each function returns 0 or a negative errno value, as an ioctl does.
class Queues {
 public:
  int create(kfd_ioctl_create_queue_args& arguments);
  int update(const kfd_ioctl_update_queue_args& arguments);
  int destroy(uint32_t id);

  // For a debugger: the numbers of those that are not there are marked, as amdkfd marks them.
  int suspend(uint32_t* ids, uint32_t count, uint64_t clear);
  int resume(uint32_t* ids, uint32_t count);
  void resume_all();
  // Fills in at most `room` entries. The number that there are.
  uint32_t snapshot(uint8_t* entries, uint32_t room, uint32_t entry_bytes, uint32_t stride, uint64_t clear);

 private:
  std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Queue>> queues_;
  uint32_t next_ = 1;
};

// One packet. False: there is none, or it can't go on yet.
bool step_aql(Queue& queue);
bool step_sdma(Queue& queue);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_QUEUES_H
