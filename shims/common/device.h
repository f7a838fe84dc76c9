// What the capture needs of a vendor's driver. shims/cuda/device.cpp implements it with CUDA's, the
// native tests with plain memory.
//
// Calls come from the launching thread, between enter() and leave() unless said otherwise. Nothing
// here blocks in the driver: what takes time is started, then polled. Functions may throw
// std::bad_alloc and nothing else.
#ifndef KERNCAP_COMMON_DEVICE_H
#define KERNCAP_COMMON_DEVICE_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/hash.h"
#include "common/json.h"
#include "common/launch.h"
#include "common/listing_rows.h"
#include "common/memory_map.h"
#include "common/nvtx_ranges.h"
#include "common/python_stack.h"
#include "common/textures.h"

namespace kerncap {

struct DeviceFacts {
  std::string kind;  // "cuda"
  std::string name;
  std::string arch;  // "sm_90"
  int ordinal = 0;
  uint64_t memory_bytes = 0;
  std::string driver;
};

// Of a CUDA context.
struct Limits {
  uint64_t stack_bytes = 0, heap_bytes = 0, print_bytes = 0, pending_launches = 0;
  bool heap_in_use = false;
};

enum class Poll : uint8_t { done, pending, failed };

// A variable that no name outside of its image finds; `address` is its place in the image's file.
struct StaticVariable {
  std::string name;
  uint64_t address = 0, size = 0;
};

// A range of memory to look for pointers in, and what was found.
struct Interval {
  uint64_t base = 0, end = 0;
};

// Memory to fingerprint: `address` is a multiple of 8, `out` has a place for each chunk.
struct PrintRange {
  uint64_t address = 0, size = 0;
  Fingerprint* out = nullptr;
};

// Work of the target's that was stopped in the midst, so that its device is not idle. Who stopped it had all
// else end and closed the gate, and makes launches (Launch::stopped) on a stream of its own, and on a thread
// of its own.
class Stopped {
 public:
  virtual ~Stopped() = default;
  // Whether the last launch has ended; `what` names the error, or what is still busy.
  virtual Poll poll(std::string* what) = 0;
  // Of the thread that asked for the work.
  PythonStack python_stack;
  ranges::Path range = 0;
  uint64_t occurrence = 0;
};

class Device {
 public:
  static constexpr size_t ring_buffers = 20;        // a dozen being written, the rest on the way
  static constexpr size_t buffer_bytes = 4U << 20;  // a multiple of every chunk size

  virtual ~Device() = default;

  // Any thread, any time: whether a stream of the process captures a graph now.
  virtual bool is_capturing() = 0;

  // Makes the launch's context current, and our own driver calls unseen, until leave(). False: why.
  virtual bool enter(const Launch& launch, std::string* why) = 0;
  virtual void leave() noexcept = 0;

  // The pinned ring and our streams, once; the gate is closed and all is idle.
  virtual bool prepare(std::string* why) = 0;

  virtual DeviceFacts describe(int ordinal) = 0;
  // Of the launch's context; zeros if there is no such thing.
  virtual Limits limits() { return {}; }
  // Whether its kernels may have used malloc; the gate is closed, and all is idle.
  virtual bool heap_in_use() { return false; }
  virtual std::string stream_text(void* stream) = 0;
  // Of a launch in a range: `order` of its record, if that is known.
  virtual void write_order(json::Writer& json, const Launch& launch, bool is_last) noexcept {
    (void)json, (void)launch, (void)is_last;
  }
  virtual std::vector<Allocation> globals(const Launch& launch, const std::vector<std::string>& names) = 0;
  // Those of the launch's image, if it is loaded.
  virtual std::vector<Allocation> statics(const Launch& launch,
                                          const std::vector<StaticVariable>& variables) {
    (void)launch, (void)variables;
    return {};
  }
  // Whether the driver still knows this memory and this process may read it. A kernel of ours that
  // met a stale range would be the target's fault.
  virtual bool is_readable(const Allocation& allocation) = 0;
  // What a launch may reach and a snapshot can't hold: a note on it.
  virtual void unseen(std::string* note) { (void)note; }
  // The launch's context's textures and surfaces, in the order in which they were made.
  virtual std::vector<TextureObject> textures() { return {}; }
  // At the end of the process: work that was stopped in the midst ends, or is given up.
  virtual void finish_stopped() noexcept {}
  // Between an array (ArrayShape tells the order of bytes) and memory; done when finish_copies() says so.
  virtual bool copy_array(int device, uint64_t array, uint64_t memory, bool to_memory) {
    (void)device, (void)array, (void)memory, (void)to_memory;
    return false;
  }

  // Whether all that the process queued has ended; begin_drain() once, then idle() until it is done.
  // `what` names what is still busy, or the error.
  virtual void begin_drain() = 0;
  virtual Poll idle(std::string* what) = 0;
  // The status of the last call that failed.
  virtual int status() const noexcept = 0;
  virtual std::string error_text(int status) = 0;
  // Any thread, no enter(): the error that a lost context gives to every call; 0 for none.
  virtual int sticky_error() noexcept = 0;

  // Pinned host memory of buffer_bytes; slot < ring_buffers.
  virtual uint8_t* buffer(size_t slot) noexcept = 0;
  virtual bool start_read(size_t slot, int device, uint64_t address, size_t size) = 0;
  virtual Poll poll(size_t slot) = 0;
  // From host memory of any kind; returns when it is there.
  virtual bool write(int device, uint64_t address, const uint8_t* bytes, size_t size) = 0;

  // Our own kernels, if this device runs them; false sends the caller the way over the host. The
  // first call loads them, which waits for the device: all is idle.
  virtual bool has_kernels(int device) = 0;
  // Whether has_kernels() would load nothing any more.
  virtual bool has_loaded(int device) {
    (void)device;
    return true;
  }
  // One fingerprint for each chunk of each range.
  virtual bool fingerprints(int device, const std::vector<PrintRange>& ranges, uint32_t chunk) = 0;
  // Scanning: a sorted table of disjoint intervals, then ranges; for each interval that a word of a range
  // leads into, the smallest address of such a word is in `sources` (UINT64_MAX: none).
  virtual bool begin_scan(int device, const std::vector<Interval>& table) = 0;
  virtual bool scan(int device, uint64_t address, uint64_t words) = 0;
  virtual bool end_scan(int device, std::vector<uint64_t>* sources) = 0;

  // Device memory of ours for a copy of the target's: 0 where less than as much would stay free.
  virtual uint64_t clone_room(int device, uint64_t size) = 0;
  virtual void free_clone(int device, uint64_t address) noexcept = 0;
  // Started, and done when finish_copies() says so.
  virtual bool copy(int device, uint64_t to, uint64_t from, uint64_t size) = 0;
  virtual bool finish_copies() = 0;
  // Keeps the device busy with harmless work for some tens of microseconds, so that a launch that
  // follows runs in another order than on an idle device. `round` varies it.
  virtual void disturb(unsigned round) noexcept = 0;

  // One mark on the launch's stream, just after it, and whether the stream has come so far.
  virtual bool mark(const Launch& launch) = 0;
  virtual Poll passed(std::string* what) = 0;

  // What kernels print. hold: from now on, no enter() before it, what the driver writes is kept back. begin,
  // when all is idle: what comes from here on is the launch's. take: that, empty if it can't be known; from
  // then on what is printed is thrown away, as the launch may be made again. end, no enter() before it: what
  // was kept back goes to the target's output when the driver would have written it; at once, if nothing of
  // ours can run. With `is_idle`, entered, all that the launch printed again is thrown away.
  virtual void hold_text() noexcept {}
  virtual bool begin_text() { return false; }
  virtual void take_text(std::string* text) { (void)text; }
  virtual void end_text(const Launch& launch, bool is_idle) noexcept { (void)launch, (void)is_idle; }

  // For --list: marks around a launch on its stream, read later without waiting. No enter() around it.
  virtual void mark_begin(const Launch& launch, RowNumber row) noexcept = 0;
  virtual void mark_end(const Launch& launch) noexcept = 0;
  // What a profiler calls the launch's context and stream; 0: it does not tell.
  virtual uint64_t profiler_stream(const Launch& launch) noexcept {
    (void)launch;
    return 0;
  }
  // The rows whose marks were passed, with their time; false when there is none yet.
  virtual bool next_time(RowNumber* row, Span* span) noexcept = 0;
  // Before counts are written: what a profiler has collected goes into the rows.
  virtual void collect_times(bool is_last) noexcept { (void)is_last; }
  // Starts the vendor's profiler, which the first launch does otherwise.
  virtual void start_profiler() noexcept {}
  // The target begins to use the vendor's profiler itself: it is left to it from now on.
  virtual void leave_profiler() noexcept {}
  // What measures: "cupti", "events", "hsa"; and why it is no better one, if anything.
  virtual const char* clock(std::string* reason) = 0;

  // Before the gate closes: allocator blocks that narrow allocations, (base, size, live) each.
  virtual std::vector<uint64_t> mirror_blocks() = 0;
  // The text of program-<n>.json for an image that was compiled at run time; "" if it has none.
  virtual std::string program_of(const Image& image) = 0;
  virtual void reset_after_fork() noexcept = 0;
};

// Whether a status means that the context is lost: every later call returns it.
bool is_fault(int status) noexcept;

// The vendor's, or the tests'.
Device* device() noexcept;
const char* shim_name() noexcept;  // "cuda"

}  // namespace kerncap

#endif  // KERNCAP_COMMON_DEVICE_H
