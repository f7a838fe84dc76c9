// The rules are those of amdkfd's kfd_events.c.
#include "events.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "../gpu.h"
#include "doorbells.h"

namespace amd_gpu {
namespace {

constexpr uint32_t for_ever = 0xffffffff;

// A signal event's age shares its place with the exception records (struct kfd_hsa_signal_event_data of newer
// headers): it comes first.
uint64_t& last_age(kfd_event_data& data) {
  return *reinterpret_cast<uint64_t*>(&data);
}

}  // namespace

int Events::create(kfd_ioctl_create_event_args& arguments) {
  std::lock_guard<std::mutex> guard(mutex_);
  const uint32_t id = next_++;
  Event& event = events_[id];
  event.type = arguments.event_type;
  event.auto_reset = arguments.auto_reset != 0;
  arguments.event_id = arguments.event_trigger_data = id;
  arguments.event_slot_index = id % KFD_SIGNAL_EVENT_LIMIT;
  if (arguments.event_page_offset == 0) arguments.event_page_offset = Doorbells::events_page;
  return 0;
}

int Events::destroy(uint32_t id) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (events_.erase(id) == 0) return -EINVAL;
  changed_.notify_all();
  return 0;
}

void Events::set_locked(Event& event) {
  event.signaled = !event.auto_reset || event.waiters == 0;
  event.age++;
  changed_.notify_all();
}

int Events::set(uint32_t id) {
  log(4, "event %u set", id);
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = events_.find(id);
  if (found == events_.end()) return -EINVAL;
  set_locked(found->second);
  return 0;
}

int Events::reset(uint32_t id) {
  std::lock_guard<std::mutex> guard(mutex_);
  const auto found = events_.find(id);
  if (found == events_.end()) return -EINVAL;
  found->second.signaled = false;
  return 0;
}

void Events::raise_memory_exception(const kfd_hsa_memory_exception_data& record) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (auto& [id, event] : events_) {
    if (event.type != KFD_IOC_EVENT_MEMORY) continue;
    event.memory = record;
    set_locked(event);
  }
}

// False: an event does not exist.
bool Events::begin(kfd_event_data* data, std::vector<Wait>& waits) {
  for (size_t i = 0; i < waits.size(); ++i) {
    if (events_.count(data[i].event_id) == 0) return false;
  }
  for (size_t i = 0; i < waits.size(); ++i) {
    Event& event = events_[data[i].event_id];
    waits[i] = {event.age, event.signaled};
    if (event.auto_reset) event.signaled = false;
    if (event.type == KFD_IOC_EVENT_SIGNAL && last_age(data[i]) != 0 && last_age(data[i]) != event.age) {
      waits[i].active = true;
    }
    event.waiters++;
  }
  return true;
}

bool Events::satisfied(const kfd_event_data* data, std::vector<Wait>& waits, bool all) {
  size_t active = 0;
  for (size_t i = 0; i < waits.size(); ++i) {
    const auto found = events_.find(data[i].event_id);
    if (found == events_.end()) return true;  // destroyed meanwhile: nothing would ever wake the waiter
    if (found->second.age != waits[i].age) waits[i].active = true;
    active += waits[i].active ? 1 : 0;
  }
  return all ? active == waits.size() : active > 0;
}

void Events::end(kfd_event_data* data, const std::vector<Wait>& waits) {
  for (size_t i = 0; i < waits.size(); ++i) {
    const auto found = events_.find(data[i].event_id);
    if (found == events_.end()) continue;
    Event& event = found->second;
    event.waiters--;
    if (!waits[i].active) continue;
    if (event.type == KFD_IOC_EVENT_MEMORY) data[i].memory_exception_data = event.memory;
    if (event.type == KFD_IOC_EVENT_SIGNAL && last_age(data[i]) != 0) last_age(data[i]) = event.age;
  }
}

int Events::wait(kfd_ioctl_wait_events_args& arguments) {
  auto* const data = reinterpret_cast<kfd_event_data*>(arguments.events_ptr);
  const bool all = arguments.wait_for_all != 0;
  std::vector<Wait> waits(arguments.num_events);
  std::unique_lock<std::mutex> guard(mutex_);
  if (!begin(data, waits)) return -EINVAL;
  bool done = satisfied(data, waits, all);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(arguments.timeout);
  while (!done) {
    if (arguments.timeout == for_ever) {
      changed_.wait(guard);
    } else if (changed_.wait_until(guard, deadline) == std::cv_status::timeout) {
      done = satisfied(data, waits, all);
      break;
    }
    done = satisfied(data, waits, all);
  }
  end(data, waits);
  arguments.wait_result = done ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
  return 0;
}

}  // namespace amd_gpu
