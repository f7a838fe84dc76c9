// The stand-in driver's objects. A handle is a pointer to one of them; each begins with a magic
// number, so that a CUkernel and a CUfunction, or a stream that was destroyed, can be told apart.
// Objects are never freed: a stale handle stays harmless.
//
// Two locks: State::mutex for everything but memory, Memory's own for the address space. The second
// is taken inside the first, never the other way round. Neither is held while a kernel, a copy or a
// callback runs.
#ifndef KERNCAP_RIG_STATE_H
#define KERNCAP_RIG_STATE_H

#define __CUDA_API_VERSION_INTERNAL  // every version of every function under its own name
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rig.h"

#define RIG_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

namespace rig {

enum class Magic : uint32_t {
  context = 0x52494701,
  stream,
  event,
  module,
  function,
  library,
  kernel,
  graph,
  node,
  graph_exec,
  pool,
  array,
  mipmapped,
  object,
  link,
  condition
};

struct Stream;
struct Event;
struct Graph;
struct GraphExec;
struct Module;
struct Context;
struct Pool;

struct Context {
  Magic magic = Magic::context;
  int device = 0;
  bool primary = false;
  bool dead = false;
  int retains = 0;
  unsigned flags = 0;
  unsigned long long id = 0;
  std::atomic<int> sticky{0};  // a CUresult: every call fails with it from then on
  std::set<Stream*> streams;
  Stream* legacy = nullptr;
  std::set<Module*> modules;
  std::map<CUlimit, size_t> limits;
  CUdeviceptr heap = 0;  // of kernels; 0: none has asked for it, and its size may be set
  size_t heap_taken = 0;
};

// --- images ------------------------------------------------------------------------------------

struct ParameterLayout {
  size_t offset = 0, size = 0;
};

struct KernelImage {
  std::string name;
  std::vector<ParameterLayout> parameters;
  size_t parameter_bytes = 0;
  size_t shared_bytes = 0;  // static
};

struct Variable {
  std::string name;
  size_t size = 0, alignment = 1;
  bool constant = false, managed = false;
  std::vector<uint8_t> initial;  // shorter than size: zeros follow
};

struct ParsedImage {
  bool is_ptx = false;
  std::vector<KernelImage> kernels;
  std::vector<Variable> variables;
};

// CUDA_SUCCESS, or the status that loading it ends with. `size` 0: take it from the image.
CUresult parse_image(const void* image, size_t size, ParsedImage* parsed);
bool parse_ptx(const std::string& text, ParsedImage* parsed);
bool parse_elf(const uint8_t* data, size_t size, ParsedImage* parsed);
size_t elf_size(const uint8_t* data);

// --- modules -----------------------------------------------------------------------------------

struct Library;
struct Kernel;

struct Global {
  CUdeviceptr address = 0;
  size_t size = 0;
};

struct Function {
  Magic magic = Magic::function;
  Module* module = nullptr;
  const KernelImage* image = nullptr;
  std::map<int, int> attributes;
  rig_kernel host = nullptr;  // found at the first launch
};

struct Module {
  Magic magic = Magic::module;
  Context* context = nullptr;
  Library* library = nullptr;
  bool gone = false;
  std::shared_ptr<ParsedImage> image;
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::map<std::string, Global> globals;
};

struct Kernel {
  Magic magic = Magic::kernel;
  Library* library = nullptr;
  const KernelImage* image = nullptr;
};

struct Library {
  Magic magic = Magic::library;
  bool gone = false;
  std::shared_ptr<ParsedImage> image;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::map<Context*, Module*> modules;
};

CUresult load_module(Context* context, std::shared_ptr<ParsedImage> image, Library* library, Module** out);
void unload_module(Module* module);  // State::mutex not held
// The function behind a CUfunction or CUkernel handle; null: neither.
Function* function_of(CUfunction handle, Context* context);
const KernelImage* kernel_image_of(CUfunction handle);

// --- work --------------------------------------------------------------------------------------

struct KernelWork {
  CUfunction handle = nullptr;
  Function* function = nullptr;
  unsigned grid[3] = {}, block[3] = {}, cluster[3] = {};
  unsigned shared_bytes = 0;
  bool cooperative = false;
  uint32_t correlation = 0, stream = 0;  // of the launch, for rig_trace
  std::vector<uint8_t> parameters;
  std::vector<CUlaunchAttribute> attributes;
};

// What a conditional node asks; a handle is its address.
struct Condition {
  Magic magic = Magic::condition;
  unsigned value = 0, standard = 0;
  bool is_assigned = false;  // each launch begins with the standard value
};

// What a stream does, and what a graph's node is.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  KernelWork kernel;
  CUDA_MEMCPY3D copy = {};
  std::shared_ptr<std::vector<uint8_t>> staged;  // what the source held at the call
  CUDA_MEMSET_NODE_PARAMS_v1 memset = {};
  CUhostFn host = nullptr;
  CUstreamCallback callback = nullptr;
  void* data = nullptr;
  Event* event = nullptr;
  Graph* child = nullptr;          // of a child graph node
  Condition* condition = nullptr;  // of a conditional node, as are these
  CUgraphConditionalNodeType branching = CU_GRAPH_COND_TYPE_IF;
  std::vector<Graph*> bodies;
  CUdeviceptr pointer = 0;
  size_t bytes = 0;                 // of a memory allocation node
  std::function<CUresult()> other;  // of a stream only: value writes, frees, graphs
};

// One thing enqueued; done once it has run, or was skipped because its context had failed.
struct Op {
  Work work;
  Context* context = nullptr;
  Stream* stream = nullptr;
  std::vector<std::shared_ptr<Op>> dependencies;
  bool done = false;
  bool inlined = false;  // runs on the thread that enqueued it
  std::chrono::steady_clock::time_point finished;
};
using OpPtr = std::shared_ptr<Op>;

struct CaptureState {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  unsigned long long id = 0;
  Graph* graph = nullptr;
  bool own_graph = true;
  Stream* origin = nullptr;
  pid_t thread = 0;
  std::set<Stream*> members;
};

struct GraphNode;

struct Stream {
  Magic magic = Magic::stream;
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  bool legacy = false, gone = false, has_thread = false;
  std::deque<OpPtr> queue;
  OpPtr last;
  std::shared_ptr<CaptureState> capture;  // null: none
  std::vector<GraphNode*> capture_tail;

  bool blocking() const { return !legacy && !(flags & CU_STREAM_NON_BLOCKING); }
};

struct Event {
  Magic magic = Magic::event;
  Context* context = nullptr;
  unsigned flags = 0;
  bool gone = false;
  OpPtr op;                               // of its last record
  std::shared_ptr<CaptureState> capture;  // recorded into one
  std::vector<GraphNode*> capture_tail;
};

// --- graphs ------------------------------------------------------------------------------------

struct GraphNode {
  Magic magic = Magic::node;
  Graph* graph = nullptr;
  Work work;
  std::vector<GraphNode*> after;  // its dependencies
  GraphNode* original = nullptr;  // in a clone
  std::vector<void*> parameter_pointers;
  bool gone = false;
};

struct Graph {
  Magic magic = Magic::graph;
  std::vector<GraphNode*> nodes;
  bool gone = false;
  int instances = 0;
};

struct GraphExec {
  Magic magic = Magic::graph_exec;
  Graph* graph = nullptr;                      // a copy
  Graph* source = nullptr;                     // what it is a copy of
  std::map<GraphNode*, GraphNode*> by_source;  // node of the source graph -> node of the copy
  std::set<GraphNode*> disabled;               // of the copy
  unsigned long long flags = 0;
  OpPtr last;
  bool gone = false;
};

Graph* clone_graph(const Graph* graph, std::map<GraphNode*, GraphNode*>* map);
// The graphs that a node runs.
std::vector<Graph*> graphs_in(const Work& work);
// At the begin of a launch.
void assign_conditions(const Graph* graph);
std::vector<GraphNode*> in_order(const Graph* graph);
// Whether a node of this type is in it, or in a child graph of it.
bool has_node(const Graph* graph, CUgraphNodeType type);
bool has_memory_nodes(const Graph* graph);
// The nodes of an instance, or of a child graph in it, take what those of `source` have, and keep their
// handles.
CUresult take_work(Graph* own, const Graph* source);
// Adds `work` to the graph that the stream captures; State::mutex held.
CUresult capture_work(Stream* stream, const Work& work);

// --- the process -------------------------------------------------------------------------------

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> initialised{false};
  pid_t pid = 0;
  int devices = 1;
  std::vector<Context*> primary;
  unsigned long long next_id = 1;
  int captures = 0;  // streams that capture now, origins only
  std::set<CaptureState*> capture_states;
  std::set<GraphExec*> execs;
};
State& state();

// Initialised, not forked, not in a host callback; the current context in `context`, not failed.
CUresult enter(Context** context);
CUresult enter_without_context();
Context* current_context();
CUresult usable(Context* context);
// What a call that could disturb a capture gets while one is on: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
CUresult unless_capturing();
int current_tid();

struct InCallback {
  InCallback();
  ~InCallback();
  static bool active();
};

// --- streams -----------------------------------------------------------------------------------

// In a _ptsz function: the stream 0 means the thread's own.
struct PerThread {
  PerThread();
  ~PerThread();
};

CUresult stream_of(CUstream handle, Context* context, Stream** out);
Stream* make_stream(Context* context, unsigned flags, int priority);  // State::mutex held
// Appends to the stream, or to the graph that it captures. `out` stays null in that case.
CUresult submit(Stream* stream, Work work, OpPtr* out = nullptr);
OpPtr enqueue(Stream* stream, Work work, std::vector<OpPtr> dependencies = {});  // State::mutex held
void wait(const OpPtr& op);
CUresult submit_and_wait(Stream* stream, Work work);
void drain(Context* context);
// Runs on a worker; a status other than success becomes the context's.
CUresult run_work(Context* context, Work& work);
CUresult run_kernel(Context* context, KernelWork& kernel);
CUresult run_copy(const CUDA_MEMCPY3D& copy, const std::vector<uint8_t>* staged);
CUresult run_memset(const CUDA_MEMSET_NODE_PARAMS_v1& memset);
CUresult run_graph(Context* context, const Graph* graph, const std::set<GraphNode*>* disabled);
// Fills `kernel` as a launch with these arguments asks.
CUresult make_kernel_work(Context* context, CUfunction handle, const unsigned grid[3],
                          const unsigned block[3], unsigned shared_bytes, void** parameters, void** extra,
                          KernelWork* kernel);

// For rig_trace: a launch's number, told to who wants it; the launch of a graph that runs on this thread.
uint32_t trace_launch();
class TracedGraph {
 public:
  TracedGraph(uint32_t correlation, uint32_t stream);
  ~TracedGraph();
};
void trace_kernel(const KernelWork& kernel, uint64_t start_ns, uint64_t end_ns);
void trace_copy(const Work& work, uint32_t stream, uint64_t start_ns, uint64_t end_ns);
uint64_t trace_clock_ns();

// --- injected failures -------------------------------------------------------------------------

struct Faults {
  std::atomic<long long> oom_after, launch_error_at, launch_error, fault_at, fault_error, copy_error_at,
      copy_error, no_jit, no_helpers, helper_error, device_bytes, mps, processors;
  std::atomic<long long> launches{0}, kernels{0}, copies{0};
};
Faults& faults();
CUresult injected_launch_error(bool helper);  // helper: one of kerncap's own kernels
CUresult injected_copy_error();

template <class T>
inline T* as(void* handle, Magic magic) {
  if (!handle || reinterpret_cast<uintptr_t>(handle) < 4096) return nullptr;
  return *static_cast<Magic*>(handle) == magic ? static_cast<T*>(handle) : nullptr;
}

// printing.cpp
void print(const char* text, bool is_helper);
void write_printed();
void wake_printing();
void limit_printing(size_t bytes);

}  // namespace rig

#endif  // KERNCAP_RIG_STATE_H
