// One capture: gate, drain, reachable memory, pre-state, the target's own launch, post-state, and the records
// of all that.
#ifndef KERNCAP_COMMON_CAPTURE_STEPS_H
#define KERNCAP_COMMON_CAPTURE_STEPS_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/capture.h"
#include "common/collective.h"
#include "common/device.h"
#include "common/process_capture.h"
#include "common/reachable_memory.h"
#include "common/snapshot.h"

namespace kerncap {

struct ElementType;

// The target's launch: made exactly once, whatever becomes of the capture.
class RealLaunch {
 public:
  RealLaunch(capture::Call call, void* context) noexcept : call_(call), context_(context) {}
  void once() noexcept;
  int again() noexcept { return call_(context_); }
  int status() const noexcept { return status_; }
  bool made() const noexcept { return made_; }
  uint64_t call_ns() const noexcept { return call_ns_; }
  bool stop_after = false;  // --stop, once the gate is open again

 private:
  capture::Call call_;
  void* context_;
  int status_ = 0;
  bool made_ = false;
  uint64_t call_ns_ = 0;
};

class LaunchCapture {
 public:
  LaunchCapture(ProcessCapture& process, Device& device, const Launch& launch, RealLaunch& real,
                Wanted&& wanted) noexcept;
  ~LaunchCapture();  // what was not settled has failed
  LaunchCapture(const LaunchCapture&) = delete;
  LaunchCapture& operator=(const LaunchCapture&) = delete;

  // Everything, the launch in the middle of it; records what became of it.
  void take();

 private:
  enum class Ending : uint8_t { complete, fault, timeout };

  // Each gives false with `why_` set, or with the capture settled.
  bool name_what_is_not_held(const char* library);
  bool look();
  bool describe_only();
  bool prepare();
  bool waits_for(int device);
  bool join_others();
  bool pass(Collective::Step step) { return !collective_.is_joined() || collective_.pass(step, &why_); }
  bool close_gate();
  bool before();
  bool snapshot();
  bool after();
  bool after_on_fault();
  bool after_not_held();

  bool enter();
  void leave() noexcept;
  void end_text() noexcept;
  Poll wait_for_idle(std::string* what);
  bool find_owners();
  bool find_regions();
  bool fits();
  bool check_sizes();
  bool place_arrays();
  void release_arrays() noexcept;
  bool open_pre();
  bool finish_kept();
  bool ended_badly(Ending ending, const std::string& error);

  // --when: whether the launch is kept, with `detail_`.
  bool judge(bool* keep);
  bool judge_differs(bool* keep);
  bool judge_nonfinite(bool* keep);
  bool judge_parameter(size_t number, const ElementType& type, const std::vector<Chunk>& changed);
  bool run_again(Snapshot& first, SnapshotFile& file, unsigned round, bool* keep);
  bool describe_difference(Snapshot& first, const SnapshotFile* file, const std::vector<Chunk>& chunks,
                           std::string* why);

  // `kerncap trace`, in launch_trace.cpp.
  void trace();
  bool trace_before();
  bool trace_after();
  bool print(Prints* prints);
  bool find_addresses();
  void write_traced(const std::string& error);

  void write_launch();
  bool write_complete(Ending ending, const std::string& error);
  void drop(const std::string& reason);
  void fail();
  void settle(Outcome outcome);
  void throw_away();

  ProcessCapture& process_;
  Device& device_;
  const Conf& conf_;
  const Launch& launch_;
  RealLaunch& real_;
  Wanted wanted_;
  std::string why_;

  bool entered_ = false, gated_ = false, settled_ = false, recorded_ = false;
  DeviceFacts facts_;
  Limits limits_;
  ReachableMemoryRequest request_;
  std::vector<Parameter> parameters_;  // where they lie, if anybody tells
  bool parameters_known_ = false;
  std::string program_;
  PythonStack python_stack_;
  ReachableMemory reachable_;
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<Snapshot> pre_;
  SnapshotFilePtr pre_file_, post_file_;
  std::vector<Chunk> chunks_;
  std::string detail_;
  bool takes_text_ = false, has_text_ = false;
  std::string text_;             // that the kernel printed
  Prints before_, now_;          // of a trace
  std::vector<bool> addresses_;  // by region
  Collective collective_;
  int64_t number_ = -1;  // of the launch in this process's records
  uint64_t pre_ns_ = 0, post_ns_ = 0, launched_ns_ = 0, duration_ns_ = 0;
};

// PROGRESS records, at most one a second.
class Reporter : public Progress {
 public:
  Reporter(ProcessCapture& process, int64_t launch, const std::string& kernel, uint64_t total);
  void done(uint64_t bytes) override;

 private:
  ProcessCapture& process_;
  int64_t launch_;
  std::string kernel_;
  uint64_t total_, done_ = 0, next_ns_;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_CAPTURE_STEPS_H
