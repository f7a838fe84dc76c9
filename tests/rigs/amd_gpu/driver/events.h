// KFD events: what a thread of the runtime sleeps on in AMDKFD_IOC_WAIT_EVENTS, and what the GPU wakes it
// with.
#ifndef KERNCAP_AMD_GPU_EVENTS_H
#define KERNCAP_AMD_GPU_EVENTS_H

#include <linux/kfd_ioctl.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace amd_gpu {

// Each function returns 0 or a negative errno value, as an ioctl does.
class Events {
 public:
  int create(kfd_ioctl_create_event_args& arguments);
  int destroy(uint32_t id);
  int set(uint32_t id);
  int reset(uint32_t id);
  int wait(kfd_ioctl_wait_events_args& arguments);

  // Sets every event of type KFD_IOC_EVENT_MEMORY, which then carries this record.
  void raise_memory_exception(const kfd_hsa_memory_exception_data& record);

 private:
  struct Event {
    uint32_t type = 0;
    bool auto_reset = false, signaled = false;
    uint64_t age = 1;  // counts how often it was set: a waiter that names an older age does not sleep
    int waiters = 0;
    kfd_hsa_memory_exception_data memory{};
  };
  struct Wait {
    uint64_t age = 0;  // when the wait began
    bool active = false;
  };

  void set_locked(Event& event);
  bool begin(kfd_event_data* data, std::vector<Wait>& waits);
  bool satisfied(const kfd_event_data* data, std::vector<Wait>& waits, bool all);
  void end(kfd_event_data* data, const std::vector<Wait>& waits);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Event> events_;
  uint32_t next_ = 1;
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_EVENTS_H
