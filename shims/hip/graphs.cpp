#include "hip/graphs.h"

#include <mutex>
#include <new>
#include <unordered_map>

#include "common/capture.h"
#include "common/glibc_floor.h"

namespace kerncap::hip {
namespace {

thread_local GraphTurn turn_here;

struct Numbers {
  std::mutex mutex;
  std::unordered_map<const void*, int64_t> of;  // by handle, which another graph may get later
};

Numbers& numbers() noexcept {
  static auto* instance = new Numbers;
  return *instance;
}

GraphTurn turn_of(const void* graph) noexcept try {
  Numbers& known = numbers();
  std::lock_guard<std::mutex> lock(known.mutex);
  return capture::graph_launched(&known.of.emplace(graph, -1).first->second);
} catch (const std::bad_alloc&) {
  return {};  // its kernels are then no graph's
}

}  // namespace

int launch_graph(LaunchGraph real, void* graph, void* stream) noexcept {
  const GraphTurn before = turn_here;
  const GraphTurn turn = turn_of(graph);
  turn_here = turn;
  const int result = real(graph, stream);
  turn_here = before;
  capture::graph_ended(turn);
  return result;
}

void forget_graph(const void* graph) noexcept {
  Numbers& known = numbers();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.of.erase(graph);
}

const GraphTurn& graph_here() noexcept {
  return turn_here;
}

void lock_graphs() noexcept {
  numbers().mutex.lock();
}

void unlock_graphs() noexcept {
  numbers().mutex.unlock();
}

}  // namespace kerncap::hip
