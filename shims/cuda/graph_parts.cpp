#include "cuda/graph_parts.h"

#include <algorithm>
#include <utility>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

class DisablingParts final : public Parts {
 public:
  DisablingParts(const GraphLaunch& launch, const GraphExec& exec) : launch_(launch), exec_(exec) {
    for (size_t i = 0; i < exec.nodes.size(); ++i)
      if (const GraphNode& node = exec.nodes[i]; node.type != CU_GRAPH_NODE_TYPE_EMPTY)
        toggles_.push_back({node.handle, i, node.enabled, node.enabled});
  }
  ~DisablingParts() noexcept override { restore(); }

  bool prepare(size_t leaf, std::string* reason) override {
    // Tried before anything runs: some nodes refuse (a kernel node that the device may update).
    if (!begun_ && (!select(leaf, leaf + 1) || !restore())) {
      *reason = "the driver refused to disable a node of its graph";
      restore();
      return false;
    }
    leaf_ = leaf;
    return true;
  }

  CUresult run_before() noexcept override {
    CUresult result = run(done_, leaf_);
    done_ = leaf_ + 1;
    return result == CUDA_SUCCESS && !select(leaf_, done_) ? failed_ : result;
  }

  CUresult run_leaf() noexcept override {
    begun_ = true;
    return launch_exec(launch_);
  }

  CUresult run_rest() noexcept override { return run(done_, exec_.nodes.size()); }

 private:
  struct Toggle {
    CUgraphNode node;
    size_t leaf;
    bool wanted, is_on;  // by the target; in the exec
  };

  CUresult run(size_t first, size_t last) noexcept {
    bool any = false;
    for (const Toggle& one : toggles_) any |= one.wanted && one.leaf >= first && one.leaf < last;
    if (!any) return CUDA_SUCCESS;
    if (!select(first, last)) return failed_;
    gate::Pass pass;
    begun_ = true;
    return launch_exec(launch_);
  }

  // Enables what is of the leaves [first, last), as far as the target wants it, and nothing else.
  bool select(size_t first, size_t last) noexcept {
    for (Toggle& one : toggles_)
      if (!set(&one, one.wanted && one.leaf >= first && one.leaf < last)) return false;
    return true;
  }

  bool restore() noexcept { return select(0, exec_.nodes.size()); }

  bool set(Toggle* one, bool on) noexcept {
    if (one->is_on == on) return true;
    gate::Own own;
    CUresult result = driver()->cuGraphNodeSetEnabled(launch_.exec, one->node, on ? 1 : 0);
    if (result != CUDA_SUCCESS) failed_ = result;
    if (result == CUDA_SUCCESS) one->is_on = on;
    return result == CUDA_SUCCESS;
  }

  GraphLaunch launch_;
  const GraphExec& exec_;
  size_t leaf_ = 0, done_ = 0;
  CUresult failed_ = CUDA_ERROR_UNKNOWN;
  std::vector<Toggle> toggles_;
};

// A part of the copy, instantiated; null for one with no nodes. Destroyed while it runs it is freed later,
// by the driver.
class Part {
 public:
  Part() noexcept = default;
  explicit Part(CUgraphExec exec) noexcept : exec_(exec) {}
  ~Part() noexcept {
    if (exec_ == nullptr) return;
    gate::Own own;
    Relaxed relaxed;
    driver()->cuGraphExecDestroy(exec_);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  Part(Part&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  Part& operator=(Part&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  CUgraphExec exec() const noexcept { return exec_; }

 private:
  CUgraphExec exec_ = nullptr;
};

// Takes all leaves but [first, last) out of a clone of the copy. What is left keeps its dependencies: of
// nodes in between none is left out, since the range is of an order that respects them.
class Cut {
 public:
  Cut(size_t first, size_t last) noexcept : first_(first), last_(last) {}

  CUresult apply(CUgraph clone, const std::vector<GraphNode>& nodes) {
    const Driver& real = *driver();
    for (const GraphNode& node : nodes) {
      CUgraphNode here = nullptr;
      if (CUresult failed = real.cuGraphNodeFindInClone(&here, node.twin, clone)) return failed;
      const bool is_child = node.type == CU_GRAPH_NODE_TYPE_GRAPH;
      const size_t leaves = is_child ? count_leaves(node.inner) : 1;
      if (at_ + leaves <= first_ || at_ >= last_) {
        at_ += leaves;
        if (CUresult failed = real.cuGraphDestroyNode(here)) return failed;
      } else if (is_child) {
        CUgraph inner = nullptr;
        if (CUresult failed = real.cuGraphChildGraphNodeGetGraph(here, &inner)) return failed;
        if (CUresult failed = apply(inner, node.inner)) return failed;
      } else {
        ++at_;
        if (!node.enabled) disabled_.push_back(here);
      }
    }
    return CUDA_SUCCESS;
  }

  // Of what is left, what the target has disabled.
  const std::vector<CUgraphNode>& disabled() const noexcept { return disabled_; }

 private:
  size_t first_, last_, at_ = 0;
  std::vector<CUgraphNode> disabled_;
};

class CopiedParts final : public Parts {
 public:
  CopiedParts(const GraphLaunch& launch, const GraphExec& exec)
      : launch_(launch), exec_(exec), leaves_(count_leaves(exec.nodes)) {}

  // All three are made before anything runs: a launch that has begun must also end.
  bool prepare(size_t leaf, std::string* reason) override {
    Part before, alone, rest;
    CUresult failed = make(done_, leaf, &before);
    if (failed == CUDA_SUCCESS) failed = make(leaf, leaf + 1, &alone);
    if (failed == CUDA_SUCCESS) failed = make(leaf + 1, leaves_, &rest);
    if (failed != CUDA_SUCCESS) {
      const char* name = nullptr;
      driver()->cuGetErrorName(failed, &name);
      *reason = std::string("the driver refused to make a part of its graph: ") +
                (name != nullptr ? name : "unknown error");
      return false;
    }
    before_ = std::move(before);
    alone_ = std::move(alone);
    rest_ = std::move(rest);
    done_ = leaf + 1;
    return true;
  }

  CUresult run_before() noexcept override { return run(before_); }
  CUresult run_leaf() noexcept override {
    begun_ = true;
    return launch_exec(launch_.of(alone_.exec()));
  }
  CUresult run_rest() noexcept override { return run(rest_); }

 private:
  CUresult run(const Part& part) noexcept {
    if (part.exec() == nullptr) return CUDA_SUCCESS;
    gate::Pass pass;
    begun_ = true;
    return launch_exec(launch_.of(part.exec()));
  }

  CUresult make(size_t first, size_t last, Part* part) {
    if (first >= last) return CUDA_SUCCESS;
    gate::Own own;
    Relaxed relaxed;
    const Driver& real = *driver();
    CUgraph clone = nullptr;
    CUgraphExec exec = nullptr;
    if (CUresult failed = real.cuGraphClone(&clone, exec_.copy)) return failed;
    Cut cut(first, last);
    CUresult result = cut.apply(clone, exec_.nodes);
    if (result == CUDA_SUCCESS) result = real.cuGraphInstantiateWithFlags(&exec, clone, exec_.flags);
    if (result == CUDA_SUCCESS) *part = Part(exec);
    for (CUgraphNode node : cut.disabled())
      if (result == CUDA_SUCCESS) result = real.cuGraphNodeSetEnabled(exec, node, 0);
    real.cuGraphDestroy(clone);
    return result;
  }

  GraphLaunch launch_;
  const GraphExec& exec_;
  size_t leaves_, done_ = 0;
  Part before_, alone_, rest_;
};

}  // namespace

std::unique_ptr<Parts> disabling_parts(const GraphLaunch& launch, const GraphExec& exec) {
  return std::make_unique<DisablingParts>(launch, exec);
}

std::unique_ptr<Parts> copied_parts(const GraphLaunch& launch, const GraphExec& exec) {
  return std::make_unique<CopiedParts>(launch, exec);
}

void GraphLaunch::find_context() noexcept {
  if (context == nullptr) context = context_of(stream, per_thread);
}

Launch GraphLaunch::describe(const GraphNode& node, const std::string& number) const {
  Launch launch = node.launch;
  launch.stream = per_thread && stream == nullptr ? CU_STREAM_PER_THREAD : stream;
  if (launch.context == nullptr) launch.context = context;
  int own = device_of(static_cast<CUcontext>(launch.context));
  launch.device = own >= 0 ? own : std::max(0, device_of(context));
  launch.route = "cuGraphLaunch node " + number;
  launch.turn = turn;
  launch.node = node.handle;
  return launch;
}

CUresult launch_exec(const GraphLaunch& launch) noexcept {
  return launch.per_thread ? driver()->cuGraphLaunch_ptsz(launch.exec, launch.stream)
                           : driver()->cuGraphLaunch(launch.exec, launch.stream);
}

CUresult launch_whole(const GraphLaunch& launch, const GraphExec& exec) noexcept {
  gate::Pass pass;
  const CUresult result = launch_exec(launch);
  if (result != CUDA_SUCCESS || !exec.has_stops) return result;
  try {
    note_memory(memory_of(exec.nodes));
  } catch (const std::bad_alloc&) {
    // What reaches it is not captured, then.
  }
  return result;
}

}  // namespace kerncap::cuda
