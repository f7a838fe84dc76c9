// The Driver of this process: made on demand, left behind by fork.
#include <pthread.h>

#include <atomic>

#include "driver.h"
#include "files.h"
#include "topology.h"

namespace amd_gpu {
namespace {

std::atomic<Driver*> current{nullptr};
pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

// The parent's queue threads are not in the child and its memory is not mapped there (MADV_DONTFORK): the
// child forgets the Driver, whose locks may be held for ever, and gets a new one when it opens /dev/kfd. The
// descriptors that it inherited stay known, as another process's.
void before_fork() {
  pthread_mutex_lock(&making);
}
void in_parent() {
  pthread_mutex_unlock(&making);
}
void in_child() {
  current = nullptr;
  files::disown();
  pthread_mutex_unlock(&making);
}

Driver* make() {
  auto* made = new Driver;
  for (const auto& device : made->devices) {
    files::own(device->memory.file(), files::Kind::render, device->ordinal);
  }
  files::own(made->doorbells.file(), files::Kind::kfd, 0);
  static bool registered = false;
  if (!registered) pthread_atfork(before_fork, in_parent, in_child);
  registered = true;
  return made;
}

}  // namespace

Driver::Driver() : config(read_config()), failures(config.failures) {
  for (unsigned i = 0; i < config.count; ++i) devices.push_back(std::make_unique<Device>(i, config));
  sysfs = write_topology(*this);
}

Device* Driver::device(uint32_t gpu_id) {
  for (const auto& device : devices) {
    if (device->gpu_id == gpu_id) return device.get();
  }
  return nullptr;
}

Driver& driver() {
  if (Driver* made = current.load(std::memory_order_acquire)) return *made;
  pthread_mutex_lock(&making);
  if (current.load() == nullptr) current.store(make(), std::memory_order_release);
  pthread_mutex_unlock(&making);
  return *current.load();
}

bool has_driver() {
  return current.load(std::memory_order_acquire) != nullptr;
}

}  // namespace amd_gpu
