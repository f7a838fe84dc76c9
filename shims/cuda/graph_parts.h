// A launch of a graph in parts, one after the other on its stream: what comes before a kernel, the kernel
// alone, and the rest.
#ifndef KERNCAP_CUDA_GRAPH_PARTS_H
#define KERNCAP_CUDA_GRAPH_PARTS_H

#include <memory>
#include <string>

#include "cuda/graphs.h"

namespace kerncap::cuda {

struct GraphLaunch {
  CUgraphExec exec = nullptr;
  CUstream stream = nullptr;
  bool per_thread = false;      // `_ptsz`: a null stream is the thread's own
  CUcontext context = nullptr;  // once it was looked for
  GraphTurn turn;

  void find_context() noexcept;
  // A kernel node of it as a launch; `number` is the node's.
  Launch describe(const GraphNode& node, const std::string& number) const;
  GraphLaunch of(CUgraphExec part) const noexcept { return {part, stream, per_thread, context, turn}; }
};

class Parts {
 public:
  virtual ~Parts() noexcept = default;
  // Makes ready for `leaf` (count_leaves), what is before it and not yet run, and all that is behind it.
  // False, with a reason: nothing has changed, and other leaves may be tried.
  virtual bool prepare(size_t leaf, std::string* reason) = 0;
  // What was prepared; each once, in this order.
  virtual CUresult run_before() noexcept = 0;
  virtual CUresult run_leaf() noexcept = 0;
  // All behind the last leaf that ran, and the end of the launch.
  virtual CUresult run_rest() noexcept = 0;
  // Whether anything was launched: past that the graph can't be launched as a whole.
  bool has_begun() const noexcept { return begun_; }

 protected:
  bool begun_ = false;
};

// Of an exec of which every node can be disabled: it is launched with the others disabled.
std::unique_ptr<Parts> disabling_parts(const GraphLaunch& launch, const GraphExec& exec);
// Of one that has a copy: of that each part is made.
std::unique_ptr<Parts> copied_parts(const GraphLaunch& launch, const GraphExec& exec);

CUresult launch_exec(const GraphLaunch& launch) noexcept;
// As the target does, and notes the memory that it leaves.
CUresult launch_whole(const GraphLaunch& launch, const GraphExec& exec) noexcept;

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_GRAPH_PARTS_H
