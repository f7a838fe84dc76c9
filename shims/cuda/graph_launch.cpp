// A graph's launch. Its kernels count as launches; one that is wanted runs alone: the exec is launched with
// only the nodes before it enabled, then with it alone inside the capture, then with the rest.
#include <algorithm>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

struct Graphs {
  std::mutex mutex;
  std::unordered_map<CUgraphExec, std::shared_ptr<GraphExec>> execs;
  std::vector<CUgraph> kept;  // destroyed by the target, held for their execs
};

Graphs& graphs() noexcept {
  static auto* instance = new Graphs;
  return *instance;
}

bool may_be_wanted(const GraphExec& exec) noexcept {
  if (capture::may_be_armed()) return true;
  return std::any_of(exec.nodes.begin(), exec.nodes.end(), [](const GraphNode& node) {
    return node.launch.kernel != nullptr &&
           node.launch.kernel->interest.load(std::memory_order_acquire) != Interest::ignored;
  });
}

const char* refusal_for(const GraphExec& exec) noexcept {
  if (exec.refusal != nullptr) return exec.refusal;
  if (exec.graph == nullptr)
    return "the graph that it was instantiated from is gone, and its nodes' handles with it";
  for (const GraphNode& node : exec.nodes)
    if (const char* reason = refusal_of(node.type)) return reason;
  return nullptr;
}

bool does_something(const GraphNode& node) noexcept {
  return node.type != CU_GRAPH_NODE_TYPE_EMPTY;
}

// One launch of a graph, in pieces. `enabled_` is what the exec has now.
class Pieces {
 public:
  Pieces(CUgraphExec handle, const GraphExec& exec, CUstream stream, bool per_thread) noexcept
      : handle_(handle), exec_(exec), stream_(stream), per_thread_(per_thread) {
    for (const GraphNode& node : exec.nodes) enabled_.push_back(node.enabled);
  }

  bool has_begun() const noexcept { return begun_; }

  // Enables nodes [first, last) as far as the target wants them, and no other.
  bool select(size_t first, size_t last) noexcept {
    for (size_t i = 0; i < enabled_.size(); ++i)
      if (!set(i, i >= first && i < last && exec_.nodes[i].enabled)) return false;
    return true;
  }

  bool restore() noexcept { return select(0, enabled_.size()); }

  // All of [done, last) with nothing else; nothing to do for none.
  CUresult run_until(size_t last) noexcept {
    size_t first = std::exchange(done_, std::max(done_, last));
    bool any = false;
    for (size_t i = first; i < last; ++i) any |= exec_.nodes[i].enabled && does_something(exec_.nodes[i]);
    if (!any) return CUDA_SUCCESS;
    if (!select(first, last)) return failed_;
    gate::Pass pass;
    return launch();
  }

  CUresult run_alone(size_t node, const Launch& what) noexcept {
    done_ = node + 1;
    auto call = [](void* context) noexcept -> int {
      return static_cast<int>(static_cast<Pieces*>(context)->launch());
    };
    return static_cast<CUresult>(capture::run(what, call, this));
  }

  CUresult launch() noexcept {
    begun_ = true;
    return per_thread_ ? driver()->cuGraphLaunch_ptsz(handle_, stream_)
                       : driver()->cuGraphLaunch(handle_, stream_);
  }

 private:
  bool set(size_t node, bool on) noexcept {
    if (enabled_[node] == on || !does_something(exec_.nodes[node])) return true;
    gate::Own own;
    CUresult result = driver()->cuGraphNodeSetEnabled(handle_, exec_.nodes[node].handle, on ? 1 : 0);
    if (result != CUDA_SUCCESS) failed_ = result;
    if (result == CUDA_SUCCESS) enabled_[node] = on;
    return result == CUDA_SUCCESS;
  }

  CUgraphExec handle_;
  const GraphExec& exec_;
  CUstream stream_;
  bool per_thread_;
  bool begun_ = false;
  size_t done_ = 0;
  CUresult failed_ = CUDA_SUCCESS;
  std::vector<bool> enabled_;
};

Launch launch_of(const GraphNode& node, size_t index, CUstream stream, bool per_thread, CUcontext context,
                 int device) {
  Launch launch = node.launch;
  launch.stream = per_thread && stream == nullptr ? CU_STREAM_PER_THREAD : stream;
  if (launch.context == nullptr) launch.context = context;
  int own = device_of(static_cast<CUcontext>(launch.context));
  launch.device = own >= 0 ? own : device;
  launch.route = "cuGraphLaunch node " + std::to_string(index);
  return launch;
}

CUresult launch_whole(CUgraphExec exec, CUstream stream, bool per_thread) noexcept {
  gate::Pass pass;
  return per_thread ? driver()->cuGraphLaunch_ptsz(exec, stream) : driver()->cuGraphLaunch(exec, stream);
}

// --list: every kernel of the graph counts, those of the Triton hook too: it doesn't see this launch.
void list_nodes(const std::vector<GraphNode>& nodes, CUstream stream, bool per_thread, CUcontext context,
                int device) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    if (!node.enabled) continue;
    list_nodes(node.inner, stream, per_thread, context, device);
    Kernel* kernel = node.launch.kernel;
    if (kernel == nullptr) continue;
    capture::note(*kernel, node.launch.grid, node.launch.block, stream);
    bool is_looked_at = capture::look(*kernel);
    if (is_looked_at || kernel->interest.load(std::memory_order_acquire) == Interest::owned)
      capture::wants(launch_of(node, i, stream, per_thread, context, device));
  }
}

// Kernels of a child graph count, and one that is wanted is refused by name.
void count_child(const GraphNode& node, size_t index, CUstream stream, bool per_thread, CUcontext context,
                 int device) noexcept {
  for (const GraphNode& one : node.inner) {
    Kernel* kernel = one.launch.kernel;
    if (kernel == nullptr) continue;
    capture::note(*kernel, one.launch.grid, one.launch.block, stream);
    if (!capture::look(*kernel)) continue;
    Launch launch = launch_of(one, index, stream, per_thread, context, device);
    if (capture::wants(launch)) capture::refuse(kernel, refusal_of(node.type));
  }
}

// Takes the graph apart at one node. Past the first piece the launch can't be made in one any more.
// False: nothing has run, and `reason` says why.
bool take_alone(Pieces* pieces, const GraphNode& node, size_t index, const Launch& launch, CUresult* result,
                const char** reason) noexcept {
  *reason = node.trouble;
  if (*reason != nullptr) return false;
  // Tried before anything runs: some nodes refuse (a kernel node that the device may update).
  if (!pieces->has_begun() && (!pieces->select(index, index + 1) || !pieces->restore())) {
    *reason = "the driver refused to disable a node of its graph";
    pieces->restore();
    return false;
  }
  *result = pieces->run_until(index);
  if (*result == CUDA_SUCCESS && !pieces->select(index, index + 1)) *result = CUDA_ERROR_UNKNOWN;
  if (*result == CUDA_SUCCESS) *result = pieces->run_alone(index, launch);
  return true;
}

}  // namespace

void track_exec(CUgraphExec exec, CUgraph graph) noexcept try {
  auto tracked = std::make_shared<GraphExec>();
  tracked->graph = graph;
  if (!read_graph(graph, &tracked->nodes)) {
    tracked->nodes.clear();
    tracked->refusal = "the driver does not tell the nodes of its graph";
  }
  Graphs& all = graphs();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.execs[exec] = std::move(tracked);
} catch (const std::bad_alloc&) {
  // Launched whole, then, and not looked into.
}

std::shared_ptr<GraphExec> exec_of(CUgraphExec exec) noexcept {
  Graphs& all = graphs();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.execs.find(exec);
  return found == all.execs.end() ? nullptr : found->second;
}

bool keep_graph(CUgraph graph) noexcept {
  Graphs& all = graphs();
  std::lock_guard<std::mutex> lock(all.mutex);
  bool needed = false;
  for (auto& [handle, exec] : all.execs) needed |= exec->graph == graph && may_be_wanted(*exec);
  if (needed) {
    all.kept.push_back(graph);
    return true;
  }
  for (auto& [handle, exec] : all.execs)
    if (exec->graph == graph) exec->graph = nullptr;
  return false;
}

CUgraph forget_exec(CUgraphExec exec) noexcept {
  Graphs& all = graphs();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.execs.find(exec);
  if (found == all.execs.end()) return nullptr;
  CUgraph graph = found->second->graph;
  all.execs.erase(found);
  for (const auto& [handle, other] : all.execs)
    if (other->graph == graph) return nullptr;
  auto kept = std::find(all.kept.begin(), all.kept.end(), graph);
  if (graph == nullptr || kept == all.kept.end()) return nullptr;
  all.kept.erase(kept);
  return graph;
}

CUresult launch_graph(CUgraphExec handle, CUstream stream, bool per_thread) noexcept {
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  // Launched into a capture it becomes a child graph of the next one.
  if (exec == nullptr || captures_now(stream, per_thread)) return launch_whole(handle, stream, per_thread);
  CUcontext context = context_of(stream, per_thread);
  int device = std::max(0, device_of(context));
  if (capture::lists_only()) {
    try {
      list_nodes(exec->nodes, stream, per_thread, context, device);
    } catch (const std::bad_alloc&) {
      // Counted in part.
    }
    return launch_whole(handle, stream, per_thread);
  }
  const char* refusal = refusal_for(*exec);
  Pieces pieces(handle, *exec, stream, per_thread);
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->nodes.size() && result == CUDA_SUCCESS; ++i) {
    const GraphNode& node = exec->nodes[i];
    Kernel* kernel = node.launch.kernel;
    if (!node.inner.empty()) count_child(node, i, stream, per_thread, context, device);
    if (kernel == nullptr || !node.enabled) continue;
    capture::note(*kernel, node.launch.grid, node.launch.block, stream);
    if (!capture::look(*kernel)) continue;
    Launch launch = launch_of(node, i, stream, per_thread, context, device);
    if (!capture::wants(launch)) continue;
    const char* reason = refusal;
    if (reason != nullptr || !take_alone(&pieces, node, i, launch, &result, &reason))
      capture::refuse(kernel, reason);
  }
  if (!pieces.has_begun()) return launch_whole(handle, stream, per_thread);
  if (result == CUDA_SUCCESS) result = pieces.run_until(exec->nodes.size());
  pieces.restore();
  return result;
}

namespace detail {
void lock_graphs() noexcept {
  graphs().mutex.lock();
}
void unlock_graphs() noexcept {
  graphs().mutex.unlock();
}
void forget_graphs_after_fork() noexcept {
  graphs().execs.clear();
  graphs().kept.clear();
}
}  // namespace detail

}  // namespace kerncap::cuda
