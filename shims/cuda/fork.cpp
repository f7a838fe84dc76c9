// A forked child: CUDA does not survive fork, so the driver's objects mean nothing there; the child may
// exec, or start a CUDA life of its own in a process folder of its own.
//
// The locks of the registries are taken around the fork, so that the child finds them free and what they
// guard whole. exec needs nothing: the environment carries the session on.
#include <pthread.h>

#include "common/capture.h"
#include "common/glibc_floor.h"
#include "common/kept_images.h"
#include "common/runtime_programs.h"
#include "cuda/graphs.h"
#include "cuda/registry.h"
#include "cuda/registry_textures.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {

void reset_after_fork() noexcept {
  detail::forget_kernels_after_fork();
  detail::forget_streams_after_fork();
  detail::forget_textures_after_fork();
  detail::forget_graphs_after_fork();
  stream_order::forget_after_fork();
}

namespace {

void before() noexcept {
  // A child may compile with NVRTC though the driver is gone.
  programs::lock();
  images::lock();
  detail::lock_registry();
  detail::lock_streams();
  detail::lock_textures();
  detail::lock_graphs();
  stream_order::lock();
}

void in_parent() noexcept {
  stream_order::unlock();
  detail::unlock_graphs();
  detail::unlock_textures();
  detail::unlock_streams();
  detail::unlock_registry();
  images::unlock();
  programs::unlock();
}

void in_child() noexcept {
  reset_after_fork();
  in_parent();
  capture::reset_after_fork();
}

}  // namespace

void watch_fork() noexcept {
  pthread_atfork(before, in_parent, in_child);
}

}  // namespace kerncap::cuda
