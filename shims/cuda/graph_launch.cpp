// A graph's launch. Its kernels count as launches; one that is wanted runs alone, inside the capture, between
// what comes before and after it (graph_parts.h), or while the graph stops for it (graph_stops.h).
#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graph_order.h"
#include "cuda/graph_parts.h"
#include "cuda/graph_stops.h"
#include "cuda/graphs.h"
#include "cuda/registry.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {
namespace {

struct Graphs {
  std::mutex mutex;
  std::unordered_map<CUgraphExec, std::shared_ptr<GraphExec>> execs;
  std::vector<CUgraph> kept;  // destroyed by the target, held for their execs
  std::unordered_map<CUgraphNode, Bodies> bodies;
};

Graphs& graphs() noexcept {
  static auto* instance = new Graphs;
  return *instance;
}

bool may_be_wanted(const std::vector<GraphNode>& nodes) noexcept {
  return capture::may_be_armed() || std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
           return may_be_wanted(node.inner) ||
                  (node.launch.kernel != nullptr &&
                   node.launch.kernel->interest.load(std::memory_order_acquire) != Interest::ignored);
         });
}

// One launch of a graph by the target: its kernels are counted, each wanted one is taken alone.
class TargetLaunch {
 public:
  TargetLaunch(const GraphLaunch& launch, const GraphExec& exec, bool is_range) noexcept
      : launch_(launch), exec_(exec), order_(launch, is_range) {}

  // Every kernel of the graph counts, in a list those of the Triton hook too: it doesn't see this launch.
  void count() noexcept try { count(exec_.nodes, {}); } catch (const std::bad_alloc&) {
    // Counted in part.
  }

  CUresult run() noexcept {
    try {
      const GraphOrder::Level level = order_.enter(exec_.nodes);
      visit(exec_.nodes, {}, level);
      order_.leave(level, 0);
    } catch (const std::bad_alloc&) {
      // What was not looked at yet is a part of the rest.
      stream_order::noted(CUDA_SUCCESS, stream_order::Call::unknown, launch_.stream, launch_.per_thread);
    }
    if (!order_.is_recorded())
      stream_order::noted(CUDA_SUCCESS, stream_order::Call::unknown, launch_.stream, launch_.per_thread);
    if (parts_ == nullptr || !parts_->has_begun()) {
      parts_.reset();
      gate::Pass pass;
      return launch_exec(launch_);
    }
    return result_ == CUDA_SUCCESS ? parts_->run_rest() : result_;
  }

 private:
  // `path` leads to the child graph that these are the nodes of: "4.".
  void count(const std::vector<GraphNode>& nodes, const std::string& path) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const GraphNode& node = nodes[i];
      if (!node.enabled) continue;
      if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) count(node.inner, path + std::to_string(i) + ".");
      Kernel* kernel = node.launch.kernel;
      if (kernel == nullptr) continue;
      capture::note(*kernel, node.launch.grid, node.launch.block, launch_.stream);
      bool is_looked_at = capture::look(*kernel);
      if (!is_looked_at && kernel->interest.load(std::memory_order_acquire) != Interest::owned) continue;
      launch_.find_context();
      capture::wants(launch_.describe(node, path + std::to_string(i)));
    }
  }

  void visit(const std::vector<GraphNode>& nodes, const std::string& path, const GraphOrder::Level& level) {
    for (size_t i = 0; i < nodes.size() && result_ == CUDA_SUCCESS; ++i) {
      const GraphNode& node = nodes[i];
      const uint64_t branch = order_.begin_node(level, nodes, i);
      bool is_known = true;
      if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) {
        const uint64_t entry = branch;
        order_.end_node(entry, true);
        const GraphOrder::Level inside = order_.enter(node.inner, entry);
        visit(node.inner, path + std::to_string(i) + ".", inside);
        order_.leave(inside, branch);
      } else {
        is_known = take(node, leaf_++, path, i, branch) || !node.enabled ||
                   (can_be_disabled(node.type) && node.type != CU_GRAPH_NODE_TYPE_KERNEL);
      }
      order_.end_node(branch, is_known);
    }
  }

  // Whether it was a kernel that is captured.
  bool take(const GraphNode& node, size_t leaf, const std::string& path, size_t number, uint64_t branch) {
    Kernel* kernel = node.launch.kernel;
    if (kernel == nullptr || !node.enabled) return false;
    capture::note(*kernel, node.launch.grid, node.launch.block, launch_.stream);
    if (!capture::look(*kernel)) return false;
    launch_.find_context();
    Launch launch = launch_.describe(node, path + std::to_string(number));
    launch.branch = branch;
    if (!capture::wants(launch)) return false;
    std::string reason;
    if (!can_take(node, &reason) || !parts_->prepare(leaf, &reason)) {
      capture::refuse(kernel, reason.c_str());
      return false;
    }
    result_ = parts_->run_before();
    if (result_ != CUDA_SUCCESS) return false;
    auto call = [](void* parts) noexcept -> int {
      return static_cast<int>(static_cast<Parts*>(parts)->run_leaf());
    };
    result_ = static_cast<CUresult>(capture::run(launch, call, parts_.get()));
    return true;
  }

  bool can_take(const GraphNode& node, std::string* reason) {
    if (node.trouble != nullptr)
      *reason = node.trouble;
    else if (!exec_.refusal.empty())
      *reason = exec_.refusal;
    else if (exec_.copy != nullptr && parts_ == nullptr)
      parts_ = copied_parts(launch_, exec_);
    else if (exec_.copy == nullptr && exec_.graph == nullptr)
      *reason = no_handles;
    else if (parts_ == nullptr)
      parts_ = disabling_parts(launch_, exec_);
    return reason->empty();
  }

  GraphLaunch launch_;
  const GraphExec& exec_;
  const GraphOrder order_;
  size_t leaf_ = 0;
  std::unique_ptr<Parts> parts_;
  CUresult result_ = CUDA_SUCCESS;
};

// Its kernels may wait for anything.
CUresult of_any_order(const GraphLaunch& launch, CUresult result) noexcept {
  return stream_order::noted(result, stream_order::Call::unknown, launch.stream, launch.per_thread);
}

void add_memory(const std::vector<GraphNode>& nodes, std::vector<GraphMemory>* changes) {
  for (const GraphNode& node : nodes) {
    add_memory(node.inner, changes);
    const bool is_taken = node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node.memory.size != 0;
    if (is_taken || node.type == CU_GRAPH_NODE_TYPE_MEM_FREE) changes->push_back({node.memory, is_taken});
  }
}

}  // namespace

std::vector<GraphMemory> memory_of(const std::vector<GraphNode>& nodes) {
  std::vector<GraphMemory> changes;
  add_memory(nodes, &changes);
  return changes;
}

void note_memory(const std::vector<GraphMemory>& changes) noexcept {
  for (const GraphMemory& change : changes) {
    if (change.is_taken)
      MemoryMap::instance().add(change.memory);
    else
      MemoryMap::instance().remove(change.memory.base);
  }
}

bool wants_copy(const std::vector<GraphNode>& nodes) noexcept {
  return !all_can_be_disabled(nodes) && !needs_stops(nodes) && !capture::lists_only() && may_be_wanted(nodes);
}

void track_bodies(CUgraphNode node, const CUgraph* bodies, size_t count, Condition condition,
                  uint64_t handle) noexcept try {
  Bodies of_node = {{bodies, bodies + count}, condition, handle};
  std::lock_guard<std::mutex> lock(graphs().mutex);
  graphs().bodies[node] = std::move(of_node);
} catch (const std::bad_alloc&) {
  // Their kernels are not named, then.
}

Bodies bodies_of(CUgraphNode node) {
  std::lock_guard<std::mutex> lock(graphs().mutex);
  auto found = graphs().bodies.find(node);
  return found == graphs().bodies.end() ? Bodies() : found->second;
}

void track_exec(CUgraphExec exec, CUgraph graph, unsigned long long flags) noexcept try {
  auto tracked = std::make_shared<GraphExec>();
  tracked->graph = graph;
  // The others are of memory nodes, of uploads and of launches by the device, which a part has none of.
  tracked->flags = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (!read_graph(graph, &tracked->nodes)) {
    tracked->nodes.clear();
    tracked->refusal = "the driver does not tell the nodes of its graph";
  } else if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    tracked->refusal = "its graph may be launched from the device too, which would launch a part of it; " +
                       outline_of(tracked->nodes);
  } else if (needs_stops(tracked->nodes)) {
    tracked->has_stops = true;
    tracked->refusal = refusal_of(tracked->nodes);
  } else if (wants_copy(tracked->nodes)) {
    copy_graph(graph, tracked.get());
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
  for (auto& [handle, exec] : all.execs)
    needed |=
        exec->graph == graph && exec->copy == nullptr && exec->refusal.empty() && may_be_wanted(exec->nodes);
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
  CUgraph graph = found->second->graph, copy = found->second->copy;
  all.execs.erase(found);
  if (copy != nullptr) return copy;
  for (const auto& [handle, other] : all.execs)
    if (other->graph == graph) return nullptr;
  auto kept = std::find(all.kept.begin(), all.kept.end(), graph);
  if (graph == nullptr || kept == all.kept.end()) return nullptr;
  all.kept.erase(kept);
  return graph;
}

CUresult launch_graph(CUgraphExec handle, CUstream stream, bool per_thread) noexcept {
  if (stopped_graphs.load(std::memory_order_relaxed) != 0) keep_order(nullptr);
  GraphLaunch launch = {handle, stream, per_thread, nullptr, {}};
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  // Launched into a capture it becomes a child graph of the next one.
  if (exec == nullptr || captures_now(stream, per_thread)) {
    gate::Pass pass;
    return of_any_order(launch, launch_exec(launch));
  }
  launch.turn = capture::graph_launched(&exec->number);
  const capture::GraphWish wish = capture::graph_wish(launch.turn);
  const bool is_range = wish == capture::GraphWish::range;
  const bool stops = wish != capture::GraphWish::nothing && exec->has_stops;
  if (stops || is_range || stream_order::recording.load(std::memory_order_relaxed)) launch.find_context();
  if (stops) return of_any_order(launch, launch_with_stops(launch, *exec));
  TargetLaunch target(launch, *exec, is_range);
  if (wish == capture::GraphWish::nothing) {
    target.count();
    return of_any_order(launch, launch_whole(launch, *exec));
  }
  const CUresult result = target.run();
  if (is_range) {
    stream_order::end();
    capture::graph_ended(launch.turn);
  }
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
  graphs().bodies.clear();
  stopped_graphs.store(0);
}
}  // namespace detail

}  // namespace kerncap::cuda
