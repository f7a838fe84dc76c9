// The state of a process under capture, behind capture.h.
#ifndef KERNCAP_COMMON_PROCESS_CAPTURE_H
#define KERNCAP_COMMON_PROCESS_CAPTURE_H

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/capture.h"
#include "common/device.h"
#include "common/selection.h"
#include "common/session.h"
#include "common/session_options.h"
#include "common/snapshot_file.h"

namespace kerncap {

// A launch that the Triton hook asked for.
struct Choice {
  std::string kernel;
  uint64_t token = 0;
  std::string annotation;
};

struct Result {
  capture::Fate fate = capture::Fate::not_launched;
  std::string reason;
};

// What the command line reads in a kernel's image.
struct ImageFacts {
  std::vector<std::string> globals;  // that its kernels can reach by name
  std::vector<StaticVariable> statics;
  // Where the kernel's own parameters lie in the launch's bytes; what is between them is the runtime's.
  std::vector<Parameter> parameters;
  bool has_parameters = false;
  std::string refusal;  // why no capture of the kernel can be replayed
};

// A kept capture that --last may yet drop.
struct Kept {
  uint64_t launch = 0;
  Kernel* kernel = nullptr;
  SnapshotFilePtr pre, post;
  bool chosen = false;
};

class ProcessCapture {
 public:
  explicit ProcessCapture(Conf conf)
      : first_(std::move(conf)),
        conf_(&first_),
        session(this->conf(), shim_name()),
        selection(this->conf()),
        memfds(session) {}

  // Of the generation that this process has seen. An older one stays valid for who reads it.
  const Conf& conf() const noexcept { return *conf_.load(std::memory_order_acquire); }

 private:
  const Conf first_;
  std::vector<std::unique_ptr<const Conf>> later_;  // by arming_
  std::atomic<const Conf*> conf_;

 public:
  Session session;
  Selection selection;
  Memfds memfds;
  std::atomic<uint64_t> overhead_ns{0};
  std::atomic<bool> fault_seen{false};
  // A launch that may wait for another one was made at once, and the process was not seen idle since.
  std::atomic<bool> waiter_runs{false};

  // The session, when something was launched; false if it can't be opened.
  bool open();
  // Asks about a kernel that is new, and says so (SEEN). Not under any lock of a driver's.
  void meet(Kernel& kernel);
  void write_counts(bool is_last = false);
  void count_when_due();
  // With list_only: times that the device knows by now go into the rows.
  void take_times();
  void write_timeline();
  // `kerncap arm`: takes the selection of a generation that is new. Called when the page has changed.
  void see_generation(const Kernel* launching);
  // --range: whether launches in these ranges are wanted; asked once for each text.
  bool wants_range(ranges::Path range);
  // Of this thread's ranges: the number of the outermost within which launches are wanted; 0: none is.
  uint64_t occurrence_here();
  // The same for a launch, or 1 if it is of the launched graph that was asked for.
  uint64_t occurrence_of(const Launch& launch);
  bool is_asked_for(const GraphTurn& turn) const {
    return turn.graph >= 0 && static_cast<uint64_t>(turn.graph) == conf().graph &&
           turn.launch == conf().graph_skip;
  }
  // The first error that means a lost context: the last launches go down.
  void saw_fault(const std::string& error);
  void remember(Kept kept);  // --last
  void at_exit();
  void stop();  // --stop: end the target as an operator would

  // Asked once for each image, and if its kernels have parameters of their own, for each of them; the
  // image's file in code/; its program's, if it was compiled at run time.
  ImageFacts facts_of(const Kernel& kernel, const std::string& arch);
  // Whether a kernel loads in a loop what another device may change; asked once for each.
  bool may_wait(const Kernel& kernel, const std::string& arch);
  const char* store_image(Image& image);
  std::string program_of(Image& image);

  // The Triton hook's.
  bool is_owned(const Kernel& kernel);
  void own(const char* name);
  bool take_choice(const Launch& launch, Choice* choice);
  void set_result(uint64_t token, capture::Fate fate, const std::string& reason);
  bool take_result(uint64_t token, Result* result);
  void choose_in_graph(Choice choice);
  void forget_graph_choice(uint64_t token);
  bool has_graph_choice(const Kernel& kernel);
  // With --graph, where the shim takes the hook's kernels too: what the hook knows of a node.
  void became_node(const Kernel& kernel, const void* node);
  std::string annotation_of(const Launch& launch);
  void set_types(uint64_t token, const std::string& types);
  std::string types_of(uint64_t token);

  void reset_after_fork();

 private:
  Answer ask_about(const Kernel& kernel);
  bool ask_facts(const Kernel& kernel, const std::string& arch, ImageFacts* facts);

  std::atomic<bool> registered_{false};  // at exit
  std::mutex arming_;                    // one thread at a time reads what was armed
  bool wants_range(const std::string& text);
  std::map<std::string, bool> range_answers_;
  std::mutex asking_;  // one question at a time; held while the command line answers
  std::map<const Image*, std::map<std::string, ImageFacts>> facts_;  // by kernel; "": of them all
  std::map<const Kernel*, bool> may_wait_;
  std::map<const Image*, std::string> programs_;
  std::mutex hook_;  // the members below
  std::set<std::string> owned_;
  std::vector<Choice> graph_;
  std::map<const void*, Choice> nodes_;
  std::map<uint64_t, Result> results_;
  std::map<uint64_t, std::string> types_;
  std::mutex last_;
  std::deque<Kept> kept_;
};

// As records and questions have an image; null for a kernel whose image was not seen.
const char* kind_of(const Image* image);
void write_image(json::Writer& json, const Kernel& kernel);

// Null if this process is not under capture.
ProcessCapture* process_capture() noexcept;

// What `wants` found out about the launch that `run` takes next on this thread.
struct Wanted {
  Kernel* kernel = nullptr;  // null: none, or taken
  bool chosen = false;       // by the hook: no selection, no ordinals
  Choice choice;
  uint64_t ordinal = 0;
  int64_t position = -1;  // in the order of all launches; -1 if no range of launches was asked for
  ranges::Path range = 0;
  RowNumber row = 0;  // with list_only
};
Wanted& wanted_here() noexcept;
std::vector<Choice>& choices_here() noexcept;
std::string& config_here() noexcept;  // of the hook's next launch on this thread, with list_only

}  // namespace kerncap

#endif  // KERNCAP_COMMON_PROCESS_CAPTURE_H
