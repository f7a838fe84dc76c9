// What a graph is made of, in words, and which of its nodes keep it from being launched in parts.
#include <algorithm>

#include "common/glibc_floor.h"
#include "cuda/graphs.h"

namespace kerncap::cuda {
namespace {

constexpr size_t longest_outline = 400, longest_name = 48;

const char* kind_of(CUgraphNodeType type) noexcept {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "memcpy";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "memset";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "host function";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "child graph";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "empty";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "event wait";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "event record";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return "semaphore signal";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "semaphore wait";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "memory allocation";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "memory free";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "memory operation";
    default:
      return is_conditional(type) ? "conditional" : "unrecognized";
  }
}

const char* kind_of(const GraphNode& node) noexcept {
  switch (node.condition) {
    case Condition::if_node:
      return "conditional (if)";
    case Condition::while_node:
      return "conditional (while)";
    case Condition::switch_node:
      return "conditional (switch)";
    default:
      return kind_of(node.type);
  }
}

// Without its parameters, and not too long.
std::string short_name(const Kernel* kernel) {
  if (kernel == nullptr) return "?";
  std::string name = kernel->demangled;
  size_t at = name.size();
  for (int depth = 0; at > 0 && name.back() == ')';) {
    --at;
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) break;
  }
  if (at != 0) name.resize(at);
  return name.size() <= longest_name ? name : name.substr(0, longest_name) + "…";
}

void add_nodes(const std::vector<GraphNode>& nodes, std::string* text);

void add_node(const GraphNode& node, size_t number, std::string* text) {
  *text += std::to_string(number) + " " + kind_of(node);
  if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    *text += " " + short_name(node.launch.kernel);
  } else if (node.type == CU_GRAPH_NODE_TYPE_GRAPH || !node.inner.empty()) {
    *text += " of " + std::to_string(node.inner.size()) + " (";
    add_nodes(node.inner, text);
    *text += ")";
  }
}

void add_nodes(const std::vector<GraphNode>& nodes, std::string* text) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i != 0) *text += ", ";
    if (text->size() > longest_outline) {
      *text += std::to_string(nodes.size() - i) + " more";
      return;
    }
    add_node(nodes[i], i, text);
  }
}

// The numbers that lead to the first node that is not `allowed`; the node itself, or null.
const GraphNode* find_fixed(const std::vector<GraphNode>& nodes, bool (*allowed)(const GraphNode&),
                            std::string* path) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    std::string here = *path + std::to_string(i), inside = here + ".";
    const GraphNode* found = allowed(node) ? find_fixed(node.inner, allowed, &inside) : &node;
    if (found == nullptr) continue;
    *path = found == &node ? here : inside;
    return found;
  }
  return nullptr;
}

// Whether a graph with one may be stopped. A host function could wait for the thread that launched the graph;
// of a conditional node that was not seen when it was added, nobody knows which kernels decide.
bool can_be_next_to_stops(const GraphNode& node) {
  if (is_conditional(node.type)) return node.condition != Condition::unknown;
  return is_memory(node.type) || (can_be_copied(node.type) && node.type != CU_GRAPH_NODE_TYPE_HOST);
}

bool can_be_in_copies(const GraphNode& node) {
  return can_be_copied(node.type);
}

}  // namespace

bool can_be_disabled(CUgraphNodeType type) noexcept {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_EMPTY;
}

bool needs_stops(const std::vector<GraphNode>& nodes) noexcept {
  return std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
    return is_memory(node.type) || is_conditional(node.type) || needs_stops(node.inner);
  });
}

bool can_be_copied(CUgraphNodeType type) noexcept {
  return can_be_disabled(type) || type == CU_GRAPH_NODE_TYPE_HOST || type == CU_GRAPH_NODE_TYPE_GRAPH ||
         type == CU_GRAPH_NODE_TYPE_WAIT_EVENT || type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
}

bool all_can_be_disabled(const std::vector<GraphNode>& nodes) noexcept {
  return std::all_of(nodes.begin(), nodes.end(),
                     [](const GraphNode& node) { return can_be_disabled(node.type); });
}

std::string refusal_of(const std::vector<GraphNode>& nodes) {
  std::string path;
  const bool stops = needs_stops(nodes);
  const GraphNode* fixed = find_fixed(nodes, stops ? can_be_next_to_stops : can_be_in_copies, &path);
  if (fixed == nullptr) return {};
  return "node " + path + " of its graph is a " + kind_of(*fixed) + " node, with which " +
         (stops ? "a graph of memory or conditional nodes can't be stopped"
                : "a graph can be neither copied nor launched in parts") +
         "; " + outline_of(nodes);
}

std::string outline_of(const std::vector<GraphNode>& nodes) {
  std::string text;
  add_nodes(nodes, &text);
  return "graph of " + std::to_string(nodes.size()) + " nodes: " + text;
}

}  // namespace kerncap::cuda
