// The emulated kernel driver's state for this process: what amdkfd keeps in its kfd_process.
//
// There is one Driver a process, made when the first of its devices or sysfs files is looked at, never
// destroyed: queue threads and the runtime's own exit handlers use it to the very end. A forked child has
// none until it opens a device itself; what it inherited belongs to the parent (see process.cpp).
//
// Locks, in this order: Debug, Allocations, Queues, Events, PhysicalMemory, PageTable. None is held while a
// kernel runs.
#ifndef KERNCAP_AMD_GPU_DRIVER_H
#define KERNCAP_AMD_GPU_DRIVER_H

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "allocations.h"
#include "config.h"
#include "debug.h"
#include "events.h"
#include "failures.h"
#include "physical.h"
#include "queues.h"
#include "svm.h"

namespace amd_gpu {

struct Device {
  Device(unsigned place, const Config& config)
      : ordinal(place), gpu_id(0x5150 + place * 0x101), memory(place, config.memory_bytes) {}

  const unsigned ordinal;
  const uint32_t gpu_id;
  PhysicalMemory memory;
  PageTable pages;
  // After a memory fault the driver runs no queue of the process any more.
  std::atomic<bool> stopped{false};
  std::atomic<uint64_t> exceptions{0};    // KFD_EC_MASK of those that were raised for the device
  std::atomic<uint64_t> trap_handler{0};  // the runtime's; 0: none
};

struct Driver {
  Driver();

  Device* device(uint32_t gpu_id);  // null: no such GPU

  const Config config;
  std::vector<std::unique_ptr<Device>> devices;
  std::string sysfs;  // the folder with our topology
  Doorbells doorbells;
  Events events;
  Allocations allocations;
  SharedVirtualMemory svm;
  Failures failures;
  Queues queues;
  Debug debug;
};

Driver& driver();

// Whether this process has a Driver, without making one.
bool has_driver();

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_DRIVER_H
