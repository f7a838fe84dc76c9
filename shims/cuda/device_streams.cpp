// Draining, copies, clones: what goes through streams.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "common/clock.h"
#include "common/gate.h"
#include "common/last_launches.h"
#include "cuda/device.h"
#include "cuda/graphs.h"

namespace kerncap::cuda {
namespace {

constexpr uint64_t wait_ns = 60 * second_ns;
constexpr uint64_t spare_bytes = 32U << 20;
constexpr unsigned copy_blocks = 64, copy_threads = 256;

struct ThreadMark {
  CUcontext context;
  uint64_t serial;
  CUevent event;
};
thread_local ThreadMark thread_mark;

// Which the driver's copies don't know.
bool is_of_graph(CUdeviceptr address) {
  Allocation found;
  return MemoryMap::instance().find(address, &found) && std::strcmp(found.how, graph_memory) == 0;
}

}  // namespace

// A query never waits. That of the default stream answers for every blocking stream of its context, those
// of other threads too, and unlike an event in it orders nothing: a kernel that waits for another one
// of the target's is not kept from it.
void CudaDevice::begin_drain() {
  busy_.clear();
  std::vector<ContextEntry> all = contexts();
  bool known = std::any_of(all.begin(), all.end(),
                           [&](const ContextEntry& entry) { return entry.context == launch_context_; });
  if (!known) all.push_back({launch_context_, launch_device_, 0});
  for (const ContextEntry& entry : all) {
    for (CUstream stream : streams_of(entry.context)) busy_.push_back({entry.context, stream});
    busy_.push_back({entry.context, CU_STREAM_LEGACY});
    busy_.push_back({entry.context, CU_STREAM_PER_THREAD});
  }
}

Poll CudaDevice::idle(std::string* what) {
  const Driver& d = *driver();
  while (!busy_.empty()) {
    Busy next = busy_.back();
    InContext in(next.context);
    CUresult status = d.cuStreamQuery(next.stream);
    if (status == CUDA_ERROR_NOT_READY) {
      *what = stream_text(next.stream);
      if (const Kernel* last = last_launches::last_on(next.stream))
        *what += " (last launched there: " + last->demangled + ")";
      return Poll::pending;
    }
    // Any other error is about the handle, which the target may just have destroyed.
    if (is_fault(static_cast<int>(status))) {
      good(status);
      *what = error_text(static_cast<int>(status));
      return Poll::failed;
    }
    busy_.pop_back();
  }
  free_clones();
  return Poll::done;
}

int CudaDevice::sticky_error() noexcept {
  const Driver* d = driver();
  if (d == nullptr || cuda::is_capturing()) return 0;
  gate::Own own;
  for (const ContextEntry& entry : contexts()) {
    InContext in(entry.context);
    auto status = static_cast<int>(d->cuStreamQuery(CU_STREAM_LEGACY));
    if (is_fault(status)) return status;
  }
  return 0;
}

// The mark is its thread's own: with --on-fault the gate may open while it is waited for, and everything else
// here is the gate's owner's.
bool CudaDevice::mark(const Launch& launch) {
  const Driver& d = *driver();
  CUcontext context = nullptr;
  d.cuCtxGetCurrent(&context);
  uint64_t serial = context_serial(context);
  if (thread_mark.event == nullptr || thread_mark.context != context || thread_mark.serial != serial) {
    thread_mark.event = nullptr;
    if (!good(d.cuEventCreate(&thread_mark.event, CU_EVENT_DISABLE_TIMING))) return false;
    thread_mark.context = context;
    thread_mark.serial = serial;
  }
  return good(d.cuEventRecord(thread_mark.event, static_cast<CUstream>(launch.stream)));
}

Poll CudaDevice::passed(std::string* what) {
  CUresult status = driver()->cuEventQuery(thread_mark.event);
  if (status == CUDA_ERROR_NOT_READY) return Poll::pending;
  if (good(status)) return Poll::done;
  *what = error_text(static_cast<int>(status));
  return Poll::failed;
}

// Host memory here is the ring, whose address is the device's too.
bool CudaDevice::copy_by_kernel(Lane& lane, CUdeviceptr to, CUdeviceptr from, size_t size) {
  uint64_t bytes = size;
  void* arguments[] = {&to, &from, &bytes};
  return good(lane.copy == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                   : driver()->cuLaunchKernel(lane.copy, copy_blocks, 1, 1, copy_threads, 1,
                                                              1, 0, lane.stream, arguments, nullptr));
}

bool CudaDevice::start_read(size_t slot, int device, uint64_t address, size_t size) {
  const Driver& d = *driver();
  Lane* own = lane(device);
  if (own == nullptr) return false;
  InContext in(own->context);
  slot_device_[slot] = device;
  uint8_t* to = buffer(slot);
  return (is_of_graph(address) ? copy_by_kernel(*own, reinterpret_cast<CUdeviceptr>(to), address, size)
                               : good(d.cuMemcpyDtoHAsync_v2(to, address, size, own->stream))) &&
         good(d.cuEventRecord(own->slot_events[slot], own->stream));
}

Poll CudaDevice::poll(size_t slot) {
  CUresult status = driver()->cuEventQuery(lanes_[slot_device_[slot]].slot_events[slot]);
  if (status == CUDA_ERROR_NOT_READY) return Poll::pending;
  return good(status) ? Poll::done : Poll::failed;
}

bool CudaDevice::wait(Lane& lane) {
  const Driver& d = *driver();
  if (!good(d.cuEventRecord(lane.done, lane.stream))) return false;
  uint64_t deadline = now_ns() + wait_ns;
  for (Backoff backoff;; backoff.pause()) {
    CUresult status = d.cuEventQuery(lane.done);
    if (status != CUDA_ERROR_NOT_READY) return good(status);
    if (now_ns() >= deadline) return good(CUDA_ERROR_LAUNCH_TIMEOUT);
  }
}

bool CudaDevice::upload(Lane& lane, CUdeviceptr to, const void* bytes, size_t size) {
  for (size_t at = 0; at < size;) {
    size_t part = std::min(size - at, buffer_bytes);
    std::memcpy(buffer(0), static_cast<const uint8_t*>(bytes) + at, part);
    const bool started = is_of_graph(to)
                             ? copy_by_kernel(lane, to + at, reinterpret_cast<CUdeviceptr>(buffer(0)), part)
                             : good(driver()->cuMemcpyHtoDAsync_v2(to + at, buffer(0), part, lane.stream));
    if (!started || !wait(lane)) return false;
    at += part;
  }
  return true;
}

bool CudaDevice::download(Lane& lane, void* bytes, CUdeviceptr from, size_t size) {
  for (size_t at = 0; at < size;) {
    size_t part = std::min(size - at, buffer_bytes);
    if (!good(driver()->cuMemcpyDtoHAsync_v2(buffer(0), from + at, part, lane.stream)) || !wait(lane))
      return false;
    std::memcpy(static_cast<uint8_t*>(bytes) + at, buffer(0), part);
    at += part;
  }
  return true;
}

bool CudaDevice::write(int device, uint64_t address, const uint8_t* bytes, size_t size) {
  Lane* own = lane(device);
  if (own == nullptr) return false;
  InContext in(own->context);
  return upload(*own, address, bytes, size);
}

bool CudaDevice::copy(int device, uint64_t to, uint64_t from, uint64_t size) {
  Lane* own = lane(device);
  if (own == nullptr) return false;
  InContext in(own->context);
  own->copying = true;
  return is_of_graph(to) || is_of_graph(from)
             ? copy_by_kernel(*own, to, from, size)
             : good(driver()->cuMemcpyDtoDAsync_v2(to, from, size, own->stream));
}

bool CudaDevice::finish_copies() {
  bool finished = true;
  for (auto& [ordinal, own] : lanes_) {
    if (!own.copying) continue;
    own.copying = false;
    InContext in(own.context);
    finished = wait(own) && finished;
  }
  return finished;
}

uint64_t CudaDevice::clone_room(int device, uint64_t size) {
  const Driver& d = *driver();
  Lane* own = lane(device);
  if (own == nullptr || d.cuMemGetInfo_v2 == nullptr) return 0;
  forget_lost_clones();
  for (size_t i = 0; i < spare_.size(); ++i) {
    if (spare_[i].context != own->context || spare_[i].size != size) continue;
    CUdeviceptr address = spare_[i].address;
    spare_.erase(spare_.begin() + static_cast<ptrdiff_t>(i));
    return address;
  }
  InContext in(own->context);
  size_t free = 0, total = 0;
  CUdeviceptr address = 0;
  if (d.cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS || free / 2 < size) return 0;
  if (d.cuMemAlloc_v2(&address, size) != CUDA_SUCCESS) return 0;
  clone_sizes_[address] = size;
  return address;
}

void CudaDevice::free_clone(int device, uint64_t address) noexcept {
  const Lane& own = lanes_[device];
  spare_.push_back({own.context, own.serial, address, clone_sizes_[address]});
}

// What a reset of their device freed: their addresses may be the target's by now.
void CudaDevice::forget_lost_clones() noexcept {
  auto is_lost = [&](const Clone& clone) {
    bool lost = context_serial(clone.context) != clone.serial;
    if (lost) clone_sizes_.erase(clone.address);
    return lost;
  };
  spare_.erase(std::remove_if(spare_.begin(), spare_.end(), is_lost), spare_.end());
}

// A little stays for the next launch, which mostly has the same sizes; the rest is the target's again.
void CudaDevice::free_clones() noexcept {
  uint64_t kept = 0;
  std::vector<Clone> stays;
  forget_lost_clones();
  for (const Clone& clone : spare_) {
    if (clone.size <= spare_bytes - kept) {
      kept += clone.size;
      stays.push_back(clone);
      continue;
    }
    InContext in(clone.context);
    driver()->cuMemFree_v2(clone.address);
    clone_sizes_.erase(clone.address);
  }
  spare_.swap(stays);
}

}  // namespace kerncap::cuda
