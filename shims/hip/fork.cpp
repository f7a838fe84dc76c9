// The locks of the registries are taken around the fork, so that the child finds them free and what they
// guard whole. exec needs nothing: the environment carries the session on.
#include "common/glibc_floor.h"

#include "hip/fork.h"

#include <pthread.h>

#include <atomic>

#include "common/capture.h"
#include "common/kept_images.h"
#include "common/runtime_programs.h"
#include "hip/agents.h"
#include "hip/copies.h"
#include "hip/faults.h"
#include "hip/graphs.h"
#include "hip/kernel_objects.h"
#include "hip/queue_order.h"
#include "hip/queues.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

void before() noexcept {
  programs::lock();
  lock_graphs();
  images::lock();
  lock_code();
  lock_queues();
  copies::lock();
  queue_order::lock();
}

void in_parent() noexcept {
  queue_order::unlock();
  copies::unlock();
  unlock_queues();
  unlock_code();
  images::unlock();
  unlock_graphs();
  programs::unlock();
}

void in_child() noexcept {
  // What the target still calls goes on to its runtime, and is seen by nobody.
  let_go();
  forget_agents();
  forget_code();
  forget_queues();
  forget_faults();
  copies::reset();
  queue_order::forget_after_fork();
  in_parent();
  capture::reset_after_fork();
}

}  // namespace

void watch_fork() noexcept {
  static std::atomic<bool> watched{false};
  if (!watched.exchange(true)) pthread_atfork(before, in_parent, in_child);
}

}  // namespace kerncap::hip
