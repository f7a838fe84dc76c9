#include "cuda/graph_stops.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>

#include "common/clock.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/kernels/snapshot_ptx.h"
#include "cuda/registry.h"

namespace kerncap::cuda {

// What stops need of a context, made once.
struct GraphStops::Tools {
  uint64_t serial = 0;
  CUmodule module = nullptr;
  CUfunction stop = nullptr;
  CUstream stream = nullptr;
  uint64_t* words = nullptr;  // kerncap_stop's, in pinned memory
  CUdeviceptr device_words = 0;
  CUevent end = nullptr;  // of the graph

  bool make(uint64_t serial_of_context) {
    const Driver& d = *driver();
    *this = Tools();
    void* memory = nullptr;
    bool made = d.cuModuleLoadData(&module, snapshot_ptx) == CUDA_SUCCESS &&
                d.cuModuleGetFunction(&stop, module, "kerncap_stop") == CUDA_SUCCESS &&
                d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                d.cuMemHostAlloc(&memory, 3 * sizeof *words,
                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS &&
                d.cuMemHostGetDevicePointer_v2(&device_words, memory, 0) == CUDA_SUCCESS &&
                d.cuEventCreate(&end, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    words = static_cast<uint64_t*>(memory);
    if (made) serial = serial_of_context;
    return made;
  }
};

namespace {

// A kernel of the graph may wait for a thread that waits at the gate.
constexpr uint64_t let_go_ns = 5 * second_ns;
constexpr size_t max_attributes = 8;  // more than a node's are read (graph_nodes.cpp)

uint64_t read(const uint64_t* word) noexcept {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

}  // namespace

GraphStops::GraphStops(const GraphLaunch& launch) noexcept : launch_(launch) {
  // For what has no `_ptsz` of its own.
  if (launch_.per_thread && launch_.stream == nullptr) launch_.stream = CU_STREAM_PER_THREAD;
}

// Used by who has the gate closed while no stopped graph is under way, so by one thread at a time. A child
// after fork has other contexts.
GraphStops::Tools* GraphStops::tools_of(CUcontext context, std::string* why) {
  static auto* all = new std::map<std::pair<pid_t, CUcontext>, Tools>;
  const uint64_t serial = context_serial(context);
  Tools& tools = (*all)[{getpid(), context}];
  if (tools.words == nullptr || tools.serial != serial) {
    InContext in(context);
    if (!tools.make(serial)) {
      tools = Tools();
      *why = "the driver refused to load the kernel that stops its graph";
      return nullptr;
    }
  }
  return &tools;
}

bool GraphStops::prepare(const GraphExec& exec, std::string* why) {
  memory_ = memory_of(exec.nodes);
  gate::Own own;
  Relaxed relaxed;
  tools_ = tools_of(launch_.context, why);
  if (tools_ == nullptr) return false;
  // With its own kernels: what these need of the device beside a launch must be there when they are launched
  // beside the graph.
  driver()->cuGraphUpload(launch_.exec, launch_.stream);
  for (Backoff backoff; driver()->cuStreamQuery(launch_.stream) == CUDA_ERROR_NOT_READY; backoff.pause()) {
  }
  while (put_ < stops_.size()) {
    if (put_stop(put_)) {
      ++put_;
      continue;
    }
    const char* name = nullptr;
    driver()->cuGetErrorName(failed_, &name);
    *why = "the driver refused to put a stop in the place of node " + stops_[put_].number +
           " of its graph: " + (name != nullptr ? name : "unknown error");
    restore();
    return false;
  }
  return true;
}

bool GraphStops::put_stop(size_t index) noexcept {
  uint64_t number = index;
  void* arguments[] = {&tools_->device_words, &number};
  CUDA_KERNEL_NODE_PARAMS stop = {};
  stop.func = tools_->stop;
  stop.gridDimX = stop.gridDimY = stop.gridDimZ = stop.blockDimX = stop.blockDimY = stop.blockDimZ = 1;
  stop.kernelParams = arguments;
  return set(stops_[index].node, stop);
}

void GraphStops::restore() noexcept {
  while (put_ != 0) put_back(--put_);
}

bool GraphStops::put_back(size_t index) noexcept {
  gate::Own own;
  const GraphNode& node = stops_[index].node;
  const Launch& launch = node.launch;
  size_t size = launch.parameters.size();
  void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint8_t*>(launch.parameters.data()),
                    CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS given = {};
  given.func = node.callee.function, given.kern = node.callee.kernel, given.ctx = node.callee.context;
  given.gridDimX = launch.grid.x, given.gridDimY = launch.grid.y, given.gridDimZ = launch.grid.z;
  given.blockDimX = launch.block.x, given.blockDimY = launch.block.y, given.blockDimZ = launch.block.z;
  given.sharedMemBytes = launch.shared_bytes;
  if (size != 0) given.extra = packed;
  return set(node, given);
}

bool GraphStops::set(const GraphNode& node, const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  const Driver& d = *driver();
  if (d.cuGraphExecKernelNodeSetParams_v2 != nullptr) {
    failed_ = d.cuGraphExecKernelNodeSetParams_v2(launch_.exec, node.handle, &parameters);
  } else {
    CUDA_KERNEL_NODE_PARAMS_v1 old = {};
    std::memcpy(&old, &parameters, sizeof old);  // the newer structure begins with the older
    failed_ = d.cuGraphExecKernelNodeSetParams(launch_.exec, node.handle, &old);
  }
  return failed_ == CUDA_SUCCESS;
}

CUresult GraphStops::launch() noexcept {
  gate::Own own;
  Relaxed relaxed;
  tools_->words[0] = tools_->words[2] = arrived_ = 0;
  const CUresult result = launch_exec(launch_);
  // An event, as no other thread can query a thread's own default stream.
  if (result == CUDA_SUCCESS) driver()->cuEventRecord(tools_->end, launch_.stream);
  restore();
  return result;
}

Stop* GraphStops::next() noexcept {
  const uint64_t started = now_ns();
  for (Backoff backoff;; backoff.pause()) {
    const bool has_ended = driver()->cuEventQuery(tools_->end) != CUDA_ERROR_NOT_READY;
    if (read(&tools_->words[0]) != arrived_) {
      ++arrived_;
      Stop* stop = &stops_[tools_->words[1]];
      stop->has_come = true;
      at_ = stop;
      return stop;
    }
    if (has_ended || is_given_up()) return nullptr;
    let_go_after(started);
  }
}

CUresult GraphStops::run() noexcept {
  gate::Own own;
  Relaxed relaxed;
  const Driver& d = *driver();
  const Launch& launch = at_->node.launch;
  const GraphNode::Callee& callee = at_->node.callee;
  CUfunction function =
      callee.function != nullptr ? callee.function : reinterpret_cast<CUfunction>(callee.kernel);
  size_t size = launch.parameters.size();
  void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint8_t*>(launch.parameters.data()),
                    CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  void** extra = size != 0 ? packed : nullptr;
  if (launch.attributes.empty())
    return d.cuLaunchKernel(function, launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x,
                            launch.block.y, launch.block.z, launch.shared_bytes, tools_->stream, nullptr,
                            extra);
  CUlaunchAttribute attributes[max_attributes] = {};
  CUlaunchConfig config = {};
  config.gridDimX = launch.grid.x, config.gridDimY = launch.grid.y, config.gridDimZ = launch.grid.z;
  config.blockDimX = launch.block.x, config.blockDimY = launch.block.y, config.blockDimZ = launch.block.z;
  config.sharedMemBytes = launch.shared_bytes;
  config.hStream = tools_->stream;
  config.attrs = attributes;
  for (const LaunchAttribute& one : launch.attributes) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = static_cast<CUlaunchAttributeID>(one.id);
    std::memcpy(&attribute.value, one.value, sizeof one.value);
  }
  return d.cuLaunchKernelEx(&config, function, nullptr, extra);
}

Poll GraphStops::poll(std::string* what) {
  gate::Own own;
  const CUresult status = driver()->cuStreamQuery(tools_->stream);
  if (status == CUDA_SUCCESS) return Poll::done;
  const char* name = nullptr;
  if (status != CUDA_ERROR_NOT_READY) driver()->cuGetErrorName(status, &name);
  *what = status == CUDA_ERROR_NOT_READY ? "the kernel" : name != nullptr ? name : "an error of the device";
  return status == CUDA_ERROR_NOT_READY ? Poll::pending : Poll::failed;
}

void GraphStops::go_on() noexcept {
  const uint64_t started = now_ns();
  for (Backoff backoff; driver()->cuStreamQuery(tools_->stream) == CUDA_ERROR_NOT_READY; backoff.pause()) {
    if (is_given_up()) return;
    let_go_after(started);
  }
  __atomic_store_n(&tools_->words[2], arrived_, __ATOMIC_RELEASE);
}

bool GraphStops::is_given_up() const noexcept {
  const uint64_t since = ending_since_ns();
  return since != 0 && now_ns() - since > let_go_ns;
}

void GraphStops::let_pass() noexcept {
  __atomic_store_n(&tools_->words[2], UINT64_MAX, __ATOMIC_RELEASE);
}

void GraphStops::open_gate() noexcept {
  note_memory(memory_);
  memory_.clear();
  gate::open();
}

void GraphStops::let_go_after(uint64_t started_ns) noexcept {
  if (let_go_ || now_ns() - started_ns < let_go_ns) return;
  let_go_ = true;
  open_gate();
}

std::string stop_refusal(const GraphNode& node, const std::vector<uint64_t>& handles) {
  const Launch& launch = node.launch;
  if (node.trouble != nullptr) return node.trouble;
  if (launch.cooperative)
    return "it is a cooperative launch, and what stops its graph takes a place on the device";
  if (launch.cluster.x * launch.cluster.y * launch.cluster.z > 1)
    return "it is launched in clusters, which its node keeps and what stops its graph has none of";
  for (size_t at = 0; at + sizeof(uint64_t) <= launch.parameters.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, launch.parameters.data() + at, sizeof word);
    for (uint64_t handle : handles)
      if (word == handle)
        return "it sets the condition of a conditional node, which it can't do outside of its graph";
  }
  return {};
}

}  // namespace kerncap::cuda
