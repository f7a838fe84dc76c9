// The capture's Device over CUDA's driver: see common/device.h for what each function promises.
#ifndef KERNCAP_CUDA_DEVICE_H
#define KERNCAP_CUDA_DEVICE_H

#include <map>
#include <string>
#include <vector>

#include "common/device.h"
#include "cuda/driver.h"
#include "cuda/registry.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {

// What the capture keeps on one device: streams, events and scratch of its own, from the driver itself
// and never from the target's allocators.
struct Lane {
  CUcontext context = nullptr;
  uint64_t serial = 0;  // of the context
  CUstream stream = nullptr;
  std::vector<CUevent> slot_events;
  CUevent done = nullptr;  // of what is waited for at once
  bool kernels_tried = false;
  CUmodule module = nullptr;
  CUfunction fingerprint = nullptr, scan = nullptr, copy = nullptr;
  CUfunction mark = nullptr;  // prints; of a module of its own
  CUdeviceptr scratch = 0;
  size_t scratch_bytes = 0;
  size_t intervals = 0;  // in the table that lies in the scratch
  bool copying = false;  // copies on the device were started
};

class CudaDevice : public Device {
 public:
  bool is_capturing() override;
  bool enter(const Launch& launch, std::string* why) override;
  void leave() noexcept override;
  bool prepare(std::string* why) override;
  DeviceFacts describe(int ordinal) override;
  Limits limits() override;
  bool heap_in_use() override;
  std::string stream_text(void* stream) override;
  void write_order(json::Writer& json, const Launch& launch, bool is_last) noexcept override {
    stream_order::write(json, launch, is_last);
  }
  std::vector<Allocation> globals(const Launch& launch, const std::vector<std::string>& names) override;
  bool is_readable(const Allocation& allocation) override;
  void unseen(std::string* note) override;
  std::vector<TextureObject> textures() override;
  void finish_stopped() noexcept override;
  bool copy_array(int device, uint64_t array, uint64_t memory, bool to_memory) override;
  void begin_drain() override;
  Poll idle(std::string* what) override;
  int status() const noexcept override;
  std::string error_text(int status) override;
  int sticky_error() noexcept override;
  uint8_t* buffer(size_t slot) noexcept override { return ring_ + slot * buffer_bytes; }
  bool start_read(size_t slot, int device, uint64_t address, size_t size) override;
  Poll poll(size_t slot) override;
  bool write(int device, uint64_t address, const uint8_t* bytes, size_t size) override;
  bool has_kernels(int device) override;
  bool has_loaded(int device) override;
  bool fingerprints(int device, const std::vector<PrintRange>& ranges, uint32_t chunk) override;
  bool begin_scan(int device, const std::vector<Interval>& table) override;
  bool scan(int device, uint64_t address, uint64_t words) override;
  bool end_scan(int device, std::vector<uint64_t>* sources) override;
  uint64_t clone_room(int device, uint64_t size) override;
  void free_clone(int device, uint64_t address) noexcept override;
  bool copy(int device, uint64_t to, uint64_t from, uint64_t size) override;
  bool finish_copies() override;
  void disturb(unsigned round) noexcept override;
  bool mark(const Launch& launch) override;
  Poll passed(std::string* what) override;
  void hold_text() noexcept override;
  bool begin_text() override;
  void take_text(std::string* text) override;
  void end_text(const Launch& launch, bool is_idle) noexcept override;
  void mark_begin(const Launch& launch, RowNumber row) noexcept override;
  void mark_end(const Launch& launch) noexcept override;
  uint64_t profiler_stream(const Launch& launch) noexcept override;
  bool next_time(RowNumber* row, Span* span) noexcept override;
  void collect_times(bool is_last) noexcept override;
  void start_profiler() noexcept override;
  void leave_profiler() noexcept override;
  const char* clock(std::string* reason) override;
  std::vector<uint64_t> mirror_blocks() override;
  std::string program_of(const Image& image) override;
  void reset_after_fork() noexcept override;

 private:
  struct Busy {
    CUcontext context;
    CUstream stream;
  };

  bool good(CUresult status) noexcept;
  // The lane of a device, made when it is first needed; null: none can be made there.
  Lane* lane(int device);
  bool make_lane(Lane& lane, CUcontext context);
  CUcontext context_of(int device);
  bool load_kernels(Lane& lane);
  bool wait(Lane& lane);
  bool need_scratch(Lane& lane, size_t size);
  bool copy_by_kernel(Lane& lane, CUdeviceptr to, CUdeviceptr from, size_t size);
  bool upload(Lane& lane, CUdeviceptr to, const void* bytes, size_t size);
  bool download(Lane& lane, void* bytes, CUdeviceptr from, size_t size);
  bool print_mark(const Launch& launch);
  void free_clones() noexcept;
  void forget_lost_clones() noexcept;

  uint8_t* ring_ = nullptr;
  CUcontext ring_context_ = nullptr;
  uint64_t ring_serial_ = 0;
  int launch_device_ = 0;
  bool is_stopped_ = false;  // in the midst of other work: what waits for an idle device waits for ever
  CUcontext launch_context_ = nullptr;
  std::map<int, Lane> lanes_;  // of the gate's owner
  std::vector<int> slot_device_;
  std::vector<Busy> busy_;  // streams that may have work, of this drain
  struct Clone {
    CUcontext context;
    uint64_t serial;
    CUdeviceptr address;
    uint64_t size;
  };
  std::map<CUdeviceptr, uint64_t> clone_sizes_;
  std::vector<Clone> spare_;  // to be used again; freed when all is idle, as cuMemFree waits for the device
};

CudaDevice& cuda_device() noexcept;

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_DEVICE_H
