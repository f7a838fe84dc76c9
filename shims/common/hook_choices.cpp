#include "common/glibc_floor.h"

// The launches that the Triton hook chose, and the answers to its questions about them.
#include "common/process_capture.h"

namespace kerncap {
namespace {

constexpr size_t max_results = 4096;  // that nobody asked for

}  // namespace

bool ProcessCapture::is_owned(const Kernel& kernel) {
  std::lock_guard<std::mutex> lock(hook_);
  return owned_.count(kernel.name) != 0;
}

void ProcessCapture::own(const char* name) {
  if (conf().graph) return;
  {
    std::lock_guard<std::mutex> lock(hook_);
    if (!owned_.insert(name).second) return;
  }
  selection.disown(name);
}

bool ProcessCapture::take_choice(const Launch& launch, Choice* choice) {
  if (conf().graph) return false;  // see became_node
  const std::string& name = launch.kernel->name;
  std::vector<Choice>& here = choices_here();
  for (size_t i = 0; i < here.size(); ++i) {
    if (here[i].kernel != name) continue;
    *choice = std::move(here[i]);
    here.erase(here.begin() + static_cast<ptrdiff_t>(i));
    --capture::thread_choices;
    return true;
  }
  if (capture::graph_choices.load() == 0 || launch.route.compare(0, 13, "cuGraphLaunch") != 0) return false;
  std::lock_guard<std::mutex> lock(hook_);
  for (size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].kernel != name) continue;
    *choice = std::move(graph_[i]);
    graph_.erase(graph_.begin() + static_cast<ptrdiff_t>(i));
    capture::graph_choices.fetch_sub(1);
    return true;
  }
  return false;
}

void ProcessCapture::set_result(uint64_t token, capture::Fate fate, const std::string& reason) {
  std::lock_guard<std::mutex> lock(hook_);
  types_.erase(token);
  if (results_.size() >= max_results) results_.erase(results_.begin());
  results_[token] = {fate, reason};
}

bool ProcessCapture::take_result(uint64_t token, Result* result) {
  std::lock_guard<std::mutex> lock(hook_);
  auto found = results_.find(token);
  if (found == results_.end()) return false;
  *result = found->second;
  results_.erase(found);
  return true;
}

void ProcessCapture::choose_in_graph(Choice choice) {
  std::lock_guard<std::mutex> lock(hook_);
  graph_.push_back(std::move(choice));
  capture::graph_choices.fetch_add(1);
}

void ProcessCapture::forget_graph_choice(uint64_t token) {
  std::lock_guard<std::mutex> lock(hook_);
  for (size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].token != token) continue;
    graph_.erase(graph_.begin() + static_cast<ptrdiff_t>(i));
    capture::graph_choices.fetch_sub(1);
    return;
  }
}

bool ProcessCapture::has_graph_choice(const Kernel& kernel) {
  std::lock_guard<std::mutex> lock(hook_);
  for (const Choice& choice : graph_)
    if (choice.kernel == kernel.name) return true;
  return false;
}

void ProcessCapture::became_node(const Kernel& kernel, const void* node) {
  std::lock_guard<std::mutex> lock(hook_);
  for (size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].kernel != kernel.name) continue;
    nodes_[node] = std::move(graph_[i]);
    graph_.erase(graph_.begin() + static_cast<ptrdiff_t>(i));
    capture::graph_choices.fetch_sub(1);
    return;
  }
}

std::string ProcessCapture::annotation_of(const Launch& launch) {
  std::lock_guard<std::mutex> lock(hook_);
  auto found = nodes_.find(launch.node);
  // A handle may be another graph's by now.
  return found != nodes_.end() && found->second.kernel == launch.kernel->name ? found->second.annotation
                                                                              : std::string();
}

void ProcessCapture::set_types(uint64_t token, const std::string& types) {
  std::lock_guard<std::mutex> lock(hook_);
  types_[token] = types;
}

std::string ProcessCapture::types_of(uint64_t token) {
  std::lock_guard<std::mutex> lock(hook_);
  auto found = types_.find(token);
  return found == types_.end() ? std::string() : found->second;
}

std::vector<Choice>& choices_here() noexcept {
  static thread_local std::vector<Choice> choices;
  return choices;
}

std::string& config_here() noexcept {
  static thread_local std::string config;
  return config;
}

}  // namespace kerncap
