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
#include "cuda/graph_parts.h"
#include "cuda/graph_stops.h"
#include "cuda/graphs.h"
#include "cuda/registry.h"

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

constexpr char no_handles[] =
    "the graph that it was instantiated from is gone, and its nodes' handles with it";
constexpr char not_alone[] =
    "other nodes may run at the same time, and a graph with memory or conditional nodes can't be launched in "
    "parts";

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
  TargetLaunch(const GraphLaunch& launch, const GraphExec& exec) noexcept
      : launch_(launch),
        exec_(exec),
        context_(context_of(launch.stream, launch.per_thread)),
        device_(std::max(0, device_of(context_))) {}

  // --list: every kernel of the graph counts, those of the Triton hook too: it doesn't see this launch.
  void list() { list(exec_.nodes, {}); }

  CUresult run() noexcept {
    if (exec_.has_stops) return run_with_stops();
    try {
      visit(exec_.nodes, {});
    } catch (const std::bad_alloc&) {
      // What was not looked at yet is a part of the rest.
    }
    if (parts_ == nullptr || !parts_->has_begun()) {
      parts_.reset();
      gate::Pass pass;
      return launch_exec(launch_);
    }
    return result_ == CUDA_SUCCESS ? parts_->run_rest() : result_;
  }

 private:
  Launch describe(const GraphNode& node, const std::string& number) const {
    Launch launch = node.launch;
    launch.stream = launch_.per_thread && launch_.stream == nullptr ? CU_STREAM_PER_THREAD : launch_.stream;
    if (launch.context == nullptr) launch.context = context_;
    int own = device_of(static_cast<CUcontext>(launch.context));
    launch.device = own >= 0 ? own : device_;
    launch.route = "cuGraphLaunch node " + number;
    return launch;
  }

  // `path` leads to the child graph that these are the nodes of: "4.".
  void list(const std::vector<GraphNode>& nodes, const std::string& path) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const GraphNode& node = nodes[i];
      if (!node.enabled) continue;
      if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) list(node.inner, path + std::to_string(i) + ".");
      Kernel* kernel = node.launch.kernel;
      if (kernel == nullptr) continue;
      capture::note(*kernel, node.launch.grid, node.launch.block, launch_.stream);
      bool is_looked_at = capture::look(*kernel);
      if (is_looked_at || kernel->interest.load(std::memory_order_acquire) == Interest::owned)
        capture::wants(describe(node, path + std::to_string(i)));
    }
  }

  void visit(const std::vector<GraphNode>& nodes, const std::string& path) {
    for (size_t i = 0; i < nodes.size() && result_ == CUDA_SUCCESS; ++i) {
      const GraphNode& node = nodes[i];
      if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) {
        visit(node.inner, path + std::to_string(i) + ".");
        continue;
      }
      visit(node, leaf_++, path, i);
    }
  }

  void visit(const GraphNode& node, size_t leaf, const std::string& path, size_t number) {
    Kernel* kernel = node.launch.kernel;
    if (kernel == nullptr || !node.enabled) return;
    capture::note(*kernel, node.launch.grid, node.launch.block, launch_.stream);
    if (!capture::look(*kernel)) return;
    Launch launch = describe(node, path + std::to_string(number));
    if (!capture::wants(launch)) return;
    std::string reason;
    if (!can_take(node, &reason) || !parts_->prepare(leaf, &reason)) {
      capture::refuse(kernel, reason.c_str());
      return;
    }
    result_ = parts_->run_before();
    if (result_ != CUDA_SUCCESS) return;
    auto call = [](void* parts) noexcept -> int {
      return static_cast<int>(static_cast<Parts*>(parts)->run_leaf());
    };
    result_ = static_cast<CUresult>(capture::run(launch, call, parts_.get()));
  }

  // The graph is launched once, whatever happens.
  CUresult run_with_stops() noexcept {
    GraphStops stops(launch_, context_);
    try {
      std::vector<Refused> refused;
      std::string why;
      find_handles(exec_.nodes);
      find_stops(exec_.nodes, {}, {true, false}, &stops, &refused);
      for (const Refused& one : refused) refuse(*one.node, one.number, one.reason);
      if (stops.all().empty()) return run_whole();
      if (!begin(&stops, &why)) {
        for (const Stop& stop : stops.all()) refuse(*stop.node, stop.number, why);
        return run_whole();
      }
    } catch (const std::bad_alloc&) {
      return run_whole();
    }
    result_ = stops.launch();
    if (result_ == CUDA_SUCCESS)
      while (const Stop* stop = stops.next()) run_stop(*stop, &stops);
    return result_;
  }

  CUresult run_whole() noexcept {
    gate::Pass pass;
    return launch_exec(launch_);
  }

  bool begin(GraphStops* stops, std::string* why) {
    std::vector<Launch> launches;
    for (const Stop& stop : stops->all()) launches.push_back(describe(*stop.node, stop.number));
    if (!exec_.refusal.empty())
      *why = exec_.refusal;
    else if (exec_.graph == nullptr)
      *why = no_handles;
    else if (is_capturing())
      *why = "a stream capture is under way, where nothing can be copied";
    else if (capture::close_for_stops(launches, why))
      return stops->prepare(why);
    return false;
  }

  struct Refused {
    const GraphNode* node;
    std::string number, reason;
  };
  struct Place {
    bool is_alone, is_in_body;
  };

  void find_handles(const std::vector<GraphNode>& nodes) {
    for (const GraphNode& node : nodes) {
      if (is_conditional(node.type)) handles_.push_back(node.condition_handle);
      find_handles(node.inner);
    }
  }

  // Counts the kernels that nobody wants, but for those in bodies: how often they run only the device knows.
  void find_stops(const std::vector<GraphNode>& nodes, const std::string& path, Place place,
                  GraphStops* stops, std::vector<Refused>* refused) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const GraphNode& node = nodes[i];
      if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node.memory.size != 0) there_.push_back(node.memory);
      if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        there_.erase(std::remove_if(there_.begin(), there_.end(),
                                    [&](const Allocation& one) { return one.base == node.memory.base; }),
                     there_.end());
      const bool is_alone = place.is_alone && node.is_alone;
      if (!node.inner.empty())
        find_stops(node.inner, path + std::to_string(i) + ".",
                   {is_alone, place.is_in_body || is_conditional(node.type)}, stops, refused);
      Kernel* kernel = node.launch.kernel;
      if (kernel == nullptr || !node.enabled) continue;
      if (capture::may_want_in_graph(*kernel)) {
        const std::string number = path + std::to_string(i);
        std::string reason = is_alone ? stop_refusal(node, handles_) : not_alone;
        if (reason.empty() || !exec_.refusal.empty())
          stops->add({&node, number, there_});
        else
          refused->push_back({&node, number, reason + "; " + outline_of(exec_.nodes)});
      } else if (!place.is_in_body) {
        capture::note(*kernel, node.launch.grid, node.launch.block, launch_.stream);
        capture::look(*kernel);
      }
    }
  }

  bool is_wanted(const Launch& launch) {
    capture::note(*launch.kernel, launch.grid, launch.block, launch_.stream);
    return capture::look(*launch.kernel) && capture::wants(launch);
  }

  void refuse(const GraphNode& node, const std::string& number, const std::string& reason) {
    if (is_wanted(describe(node, number))) capture::refuse(node.launch.kernel, reason.c_str());
  }

  void run_stop(const Stop& stop, GraphStops* stops) noexcept {
    bool has_run = false;
    try {
      Launch launch = describe(*stop.node, stop.number);
      launch.stopped = stops;
      if (is_wanted(launch)) {
        if (stops->is_let_go()) {
          capture::refuse(launch.kernel, "its graph waits for another thread, or for a long time");
        } else {
          for (const Allocation& memory : stop.memory) MemoryMap::instance().add(memory);
          auto call = [](void* own) noexcept -> int {
            return static_cast<int>(static_cast<GraphStops*>(own)->run());
          };
          has_run = true;
          result_ = static_cast<CUresult>(capture::run(launch, call, stops));
          for (const Allocation& memory : stop.memory) MemoryMap::instance().remove(memory.base);
        }
      }
    } catch (const std::bad_alloc&) {
      // It is not captured, then.
    }
    if (!has_run) result_ = stops->run();
    stops->go_on();
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
  CUcontext context_;
  int device_;
  size_t leaf_ = 0;
  std::vector<Allocation> there_;  // of the graph's own, at the node that is looked at
  std::vector<uint64_t> handles_;  // of its conditional nodes
  std::unique_ptr<Parts> parts_;
  CUresult result_ = CUDA_SUCCESS;
};

// What a launch leaves of the graph's own memory is there until something else frees it.
void note_memory(const std::vector<GraphNode>& nodes) noexcept {
  for (const GraphNode& node : nodes) {
    note_memory(node.inner);
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node.memory.size != 0)
      MemoryMap::instance().add(node.memory);
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE) MemoryMap::instance().remove(node.memory.base);
  }
}

}  // namespace

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
  const GraphLaunch launch = {handle, stream, per_thread};
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  // Launched into a capture it becomes a child graph of the next one.
  if (exec == nullptr || captures_now(stream, per_thread)) {
    gate::Pass pass;
    return launch_exec(launch);
  }
  TargetLaunch target(launch, *exec);
  if (!capture::lists_only()) {
    const CUresult result = target.run();
    if (exec->has_stops && result == CUDA_SUCCESS) note_memory(exec->nodes);
    return result;
  }
  try {
    target.list();
  } catch (const std::bad_alloc&) {
    // Counted in part.
  }
  gate::Pass pass;
  return launch_exec(launch);
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
}
}  // namespace detail

}  // namespace kerncap::cuda
