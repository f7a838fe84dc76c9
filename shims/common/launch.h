// A kernel and a launch of it, as every shim sees them.
//
// Objects of these types live as long as the process: what a launch on the fast path holds a
// pointer to is never freed, only marked as gone.
#ifndef KERNCAP_COMMON_LAUNCH_H
#define KERNCAP_COMMON_LAUNCH_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace kerncap {

struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;
};

// Where one parameter lies in the parameter buffer.
struct Parameter {
  uint32_t offset = 0, size = 0;
};

// One attribute of an extended launch, as the driver takes it.
struct LaunchAttribute {
  uint32_t id = 0;
  uint8_t value[64] = {};
};

// An image as it was given to the driver. `data` stays valid for the life of the process, or of
// the mapping it lies in (see `mapped_from`).
struct Image {
  enum class Kind { fatbin, elf, ptx, unknown };
  Kind kind = Kind::unknown;
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::string mapped_from;                   // the file whose mapping `data` lies in; else a copy of our own
  std::string origin;                        // "nvrtc", "hiprtc", "file PATH", "linked", or ""
  std::atomic<const char*> stored{nullptr};  // its name under code/ once it was written there
};

// A loaded module (CUmodule or CUlibrary; hipModule_t; an executable).
struct Module {
  void* handle = nullptr;
  bool is_library = false;
  Image* image = nullptr;  // null: not seen when it was loaded
  int device = -1;         // of a module; a library is on every device
  std::atomic<bool> gone{false};
};

// What selection decided about a kernel; read on every launch, so one byte and no lock.
enum class Interest : uint8_t {
  unknown,  // never asked: the slow path decides
  ignored,  // counted, never captured
  watched,  // each launch goes through selection
  owned     // captured only when the Triton hook announces it (capture.h: choose)
};

// A count to which the thread that is first adds without a locked instruction, as all of a kernel's launches
// mostly come from one thread.
class LaunchCount {
 public:
  // `thread`: what only the calling thread has (this_thread.h); null for none.
  void add(const void* thread) noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    if (thread != nullptr && first_.load(relaxed) == thread)
      own_.store(own_.load(relaxed) + 1, relaxed);
    else
      add_slowly(thread);
  }
  uint64_t load() const noexcept {
    return own_.load(std::memory_order_relaxed) + others_.load(std::memory_order_relaxed);
  }
  // In a forked child.
  void reset() noexcept {
    own_.store(0, std::memory_order_relaxed);
    others_.store(0, std::memory_order_relaxed);
  }

 private:
  __attribute__((noinline, cold)) void add_slowly(const void* thread) noexcept {
    const void* first = nullptr;
    if (thread != nullptr && first_.compare_exchange_strong(first, thread, std::memory_order_relaxed))
      own_.store(own_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    else
      others_.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<const void*> first_{nullptr};
  std::atomic<uint64_t> own_{0}, others_{0};
};

struct Kernel {
  void* handle = nullptr;  // CUfunction or CUkernel
  std::string name;        // as in the image, mangled
  std::string demangled;   // equal to `name` if it is not mangled
  Module* module = nullptr;
  std::vector<Parameter> layout;  // empty for none; `layout_known` tells it from unknown
  bool layout_known = false;
  uint32_t parameter_bytes = 0;
  alignas(64) std::atomic<Interest> interest{Interest::unknown};  // from here on: what a launch looks at
  LaunchCount launches;                                           // every launch of it in this process
  std::atomic<uint64_t> ordinal{0};                               // of launches that passed -k and --where
  std::atomic<bool> is_loaded{false};  // its code is on the device: no call about it waits for that
  std::atomic<Kernel*> same{nullptr};  // the first kernel of this name, whose ordinals count; null: itself
};

// What an AMD dispatch packet says beyond grid and block: HIP may launch a last workgroup that is not full.
struct Dispatch {
  uint32_t work_items[3] = {};
  uint32_t group_bytes = 0, private_bytes = 0;  // as the packet has them, the kernel's own included
  uint32_t dimensions = 0;                      // 0: no dispatch packet
  uint64_t kernel_object = 0;                   // the address of the kernel's descriptor
  bool in_order = false;                        // after all that its stream got before, and nothing else
};

class Stopped;  // device.h

// A launch of a graph: the graph's place in the order of first launches, and how often it was launched
// before.
struct GraphTurn {
  int64_t graph = -1;  // -1: no graph
  uint64_t launch = 0;
};

// One launch as the target asked for it. Lives on the launching thread's stack.
struct Launch {
  Kernel* kernel = nullptr;
  Dim3 grid, block, cluster;  // cluster: zeros for none
  uint32_t shared_bytes = 0;  // dynamic
  bool cooperative = false;
  std::vector<LaunchAttribute> attributes;
  Dispatch dispatch;
  void* stream = nullptr;
  void* context = nullptr;  // the current one, or the stream's
  int device = 0;
  std::vector<uint8_t> parameters;  // `parameter_bytes`, each value at its offset
  Stopped* stopped = nullptr;       // in the midst of which it is made
  GraphTurn turn;                   // of the graph that it is a node of
  const void* node = nullptr;       // the vendor's handle of that node
  uint64_t branch = 0;              // its number in the graph, if that orders a range
  std::string route;                // "cuLaunchKernel", "cuGraphLaunch node 3", … for messages and the record
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_LAUNCH_H
