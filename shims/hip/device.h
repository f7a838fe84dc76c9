// The capture's Device over the HSA runtime: see common/device.h for what each function promises.
#ifndef KERNCAP_HIP_DEVICE_H
#define KERNCAP_HIP_DEVICE_H

#include <map>
#include <string>
#include <vector>

#include "common/device.h"
#include "hip/agents.h"
#include "hip/copies.h"
#include "hip/queue_order.h"
#include "hip/queues.h"
#include "hip/tables.h"

namespace kerncap::hip {

class HipDevice : public Device {
 public:
  // What runs under a queue's lock has no driver-side graph: a graph's kernels arrive as packets.
  bool is_capturing() override { return false; }
  bool enter(const Launch& launch, std::string* why) override;
  void leave() noexcept override;
  bool prepare(std::string* why) override;
  DeviceFacts describe(int ordinal) override;
  std::string stream_text(void* stream) override;
  void write_order(json::Writer& json, const Launch& launch, bool is_last) noexcept override {
    queue_order::write(json, launch, is_last);
  }
  std::vector<Allocation> globals(const Launch& launch, const std::vector<std::string>& names) override;
  std::vector<Allocation> statics(const Launch& launch,
                                  const std::vector<StaticVariable>& variables) override;
  bool is_readable(const Allocation& allocation) override;
  void unseen(std::string* note) override;
  void begin_drain() override;
  Poll idle(std::string* what) override;
  int status() const noexcept override;
  std::string error_text(int status) override;
  int sticky_error() noexcept override;
  uint8_t* buffer(size_t slot) noexcept override { return ring_ + slot * buffer_bytes; }
  bool start_read(size_t slot, int device, uint64_t address, size_t size) override;
  Poll poll(size_t slot) override;
  bool write(int device, uint64_t address, const uint8_t* bytes, size_t size) override;
  // The way over the host: it needs no code object for every generation.
  bool has_kernels(int) override { return false; }
  bool fingerprints(int, const std::vector<PrintRange>&, uint32_t) override { return false; }
  bool begin_scan(int, const std::vector<Interval>&) override { return false; }
  bool scan(int, uint64_t, uint64_t) override { return false; }
  bool end_scan(int, std::vector<uint64_t>*) override { return false; }
  uint64_t clone_room(int device, uint64_t size) override;
  void free_clone(int device, uint64_t address) noexcept override;
  bool copy(int device, uint64_t to, uint64_t from, uint64_t size) override;
  bool finish_copies() override;
  void disturb(unsigned round) noexcept override;
  bool mark(const Launch& launch) override;
  Poll passed(std::string* what) override;
  void mark_begin(const Launch& launch, RowNumber row) noexcept override;
  void mark_end(const Launch& launch) noexcept override;
  bool next_time(RowNumber* row, Span* span) noexcept override;
  void collect_times(bool) noexcept override { copies::all_done(); }
  const char* clock(std::string*) override { return word::clock::hsa; }
  std::vector<uint64_t> mirror_blocks() override { return {}; }
  std::string program_of(const Image& image) override;
  void reset_after_fork() noexcept override { forget(); }

  // The runtime is about to shut down: what is ours goes first. After `forget` nothing of it is known.
  void dispose() noexcept;
  void forget() noexcept;

 private:
  struct Busy {
    Queue* queue;
    Barrier* barrier;
    bool woken;
  };

  bool good(Status status) noexcept;
  static int& last_status_here() noexcept;
  const Gpu* gpu(int device) noexcept;
  bool make_signal(Signal* signal) noexcept;
  bool start_copy(Signal done, void* to, Agent to_agent, const void* from, Agent from_agent, size_t size);
  Poll poll_signal(Signal signal) noexcept;
  bool wait(Signal signal) noexcept;
  bool is_shared(uint64_t address) noexcept;
  void ask(Busy& busy);
  void settle(const Busy& busy) noexcept;
  Poll failed(std::string* what);

  uint8_t* ring_ = nullptr;
  std::vector<Signal> slots_;                    // one more than the ring has: for what is waited for at once
  std::vector<Busy> busy_;                       // queues that may have work, of this drain
  std::vector<std::pair<Signal, bool>> copies_;  // on the device; whether one is under way
  std::string trouble_;                          // why a queue can't be asked
};

HipDevice& hip_device() noexcept;

// Signals around launches, for --list (device_times.cpp).
namespace times {
bool begin(const Launch& launch, RowNumber row, Signal* before, Signal* after) noexcept;
void end() noexcept;
bool next(RowNumber* row, Span* span) noexcept;
// From the runtime's clock to now_ns()'s. False: it does not tell it.
bool on_host(const Hsa& real, uint64_t start, uint64_t end, Span* span) noexcept;
void dispose(const Hsa& real) noexcept;
void forget() noexcept;
}  // namespace times

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_DEVICE_H
