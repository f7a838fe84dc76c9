// Launches: what is checked at the call, and how a kernel runs.
#include <dlfcn.h>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory.h"

namespace rig {

namespace {

struct Frame {
  sigjmp_buf back;
  CUresult status = CUDA_SUCCESS;
  bool is_helper = false;
};
thread_local Frame* frame = nullptr;

std::mutex runs_mutex;
std::map<std::string, unsigned long long>& runs() {
  static auto* all = new std::map<std::string, unsigned long long>;
  return *all;
}

const std::vector<void*>& kernel_libraries() {
  static const auto* libraries = [] {
    auto* opened = new std::vector<void*>;
    const char* list = std::getenv("KERNCAP_RIG_KERNELS");
    std::string all = list ? list : "";
    for (size_t at = 0; at < all.size();) {
      size_t end = std::min(all.find(':', at), all.size());
      std::string path = all.substr(at, end - at);
      if (!path.empty()) {
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library)
          opened->push_back(library);
        else
          std::fprintf(stderr, "rig: KERNCAP_RIG_KERNELS: %s\n", dlerror());
      }
      at = end + 1;
    }
    return opened;
  }();
  return *libraries;
}

rig_kernel find_host(const std::string& name) {
  std::string symbol = "rig_kernel_" + name;
  for (void* library : kernel_libraries())
    if (void* found = dlsym(library, symbol.c_str())) return reinterpret_cast<rig_kernel>(found);
  return reinterpret_cast<rig_kernel>(dlsym(RTLD_DEFAULT, symbol.c_str()));
}

CUresult resolve(Function* function) {
  static std::mutex finding;
  std::lock_guard<std::mutex> lock(finding);
  if (!function->host) function->host = find_host(function->image->name);
  if (function->host) return CUDA_SUCCESS;
  std::fprintf(stderr,
               "rig: no host function rig_kernel_%s: link it with -rdynamic or name its library in "
               "KERNCAP_RIG_KERNELS\n",
               function->image->name.c_str());
  return CUDA_ERROR_NOT_FOUND;
}

// kerncap's own kernels: the failures that a program is given are not counted by them.
bool is_helper(const KernelImage& image) {
  return image.name.rfind("kerncap_", 0) == 0;
}

CUresult read_extra(void** extra, size_t need, std::vector<uint8_t>* out) {
  const void* buffer = nullptr;
  size_t size = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *static_cast<size_t*>(extra[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!buffer || size < need) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out->data(), buffer, need);
  return CUDA_SUCCESS;
}

bool fits(const KernelWork& kernel, const Function& function) {
  unsigned long long threads = 1;
  for (unsigned n : kernel.block) threads *= n;
  if (!threads || threads > 1024 || kernel.block[2] > 64) return false;
  if (!kernel.grid[0] || !kernel.grid[1] || !kernel.grid[2]) return false;
  auto most = function.attributes.find(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  size_t limit = most == function.attributes.end() ? 49152 - function.image->shared_bytes
                                                   : static_cast<size_t>(most->second);
  return kernel.shared_bytes <= limit;
}

}  // namespace

CUresult make_kernel_work(Context* context, CUfunction handle, const unsigned grid[3],
                          const unsigned block[3], unsigned shared_bytes, void** parameters, void** extra,
                          KernelWork* kernel) {
  Function* function = function_of(handle, context);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  kernel->handle = handle;
  kernel->function = function;
  std::memcpy(kernel->grid, grid, sizeof kernel->grid);
  std::memcpy(kernel->block, block, sizeof kernel->block);
  kernel->shared_bytes = shared_bytes;
  if (!fits(*kernel, *function)) return CUDA_ERROR_INVALID_VALUE;
  const KernelImage& image = *function->image;
  kernel->parameters.assign(image.parameter_bytes, 0);
  if (extra) {
    if (parameters) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = read_extra(extra, image.parameter_bytes, &kernel->parameters)) return error;
  } else {
    if (!parameters && !image.parameters.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < image.parameters.size(); ++i)
      std::memcpy(kernel->parameters.data() + image.parameters[i].offset, parameters[i],
                  image.parameters[i].size);
  }
  return resolve(function);
}

CUresult run_kernel(Context* context, KernelWork& kernel) {
  const KernelImage& image = *kernel.function->image;
  if (!is_helper(image) && faults().kernels.fetch_add(1) == faults().fault_at.load())
    return static_cast<CUresult>(faults().fault_error.load());
  std::vector<uint8_t> shared(kernel.shared_bytes, 0xA5);
  std::vector<const void*> parameters;
  for (const ParameterLayout& layout : image.parameters)
    parameters.push_back(kernel.parameters.data() + layout.offset);
  rig_launch launch = {};
  launch.name = image.name.c_str();
  std::memcpy(launch.grid, kernel.grid, sizeof launch.grid);
  std::memcpy(launch.block, kernel.block, sizeof launch.block);
  std::memcpy(launch.cluster, kernel.cluster, sizeof launch.cluster);
  launch.shared_bytes = kernel.shared_bytes;
  launch.shared = shared.data();
  launch.device = context->device;
  launch.cooperative = kernel.cooperative;
  launch.parameter_count = parameters.size();
  launch.parameters = parameters.data();
  launch.parameter_buffer = kernel.parameters.data();
  launch.parameter_bytes = kernel.parameters.size();
  launch.module = kernel.function->module;
  for (const CUlaunchAttribute& attribute : kernel.attributes)
    if (attribute.id < 64) launch.attributes |= uint64_t{1} << attribute.id;
  {
    std::lock_guard<std::mutex> lock(runs_mutex);
    ++runs()[image.name];
    ++runs()[""];
  }
  Frame here;
  here.is_helper = is_helper(image);
  frame = &here;
  uint64_t started = trace_clock_ns();
  // A kernel that touches what it may not leaves through rig_fail.
  if (sigsetjmp(here.back, 0) == 0) kernel.function->host(&launch);
  frame = nullptr;
  trace_kernel(kernel, started, trace_clock_ns());
  return here.status;
}

namespace {

CUresult launch(CUfunction handle, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                CUstream stream_handle, void** parameters, void** extra, const CUlaunchAttribute* attributes,
                unsigned count, bool cooperative) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(stream_handle, context, &stream)) return error;
  if (stream->context != context) return CUDA_ERROR_INVALID_HANDLE;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  KernelWork& kernel = work.kernel;
  for (unsigned i = 0; i < count; ++i) {
    kernel.attributes.push_back(attributes[i]);
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      cooperative = attributes[i].value.cooperative != 0;
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      kernel.cluster[0] = attributes[i].value.clusterDim.x;
      kernel.cluster[1] = attributes[i].value.clusterDim.y;
      kernel.cluster[2] = attributes[i].value.clusterDim.z;
      for (int d = 0; d < 3; ++d)
        if (!kernel.cluster[d] || grid[d] % kernel.cluster[d]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
  }
  kernel.cooperative = cooperative;
  if (CUresult error =
          make_kernel_work(context, handle, grid, block, shared_bytes, parameters, extra, &kernel))
    return error;
  if (CUresult error = injected_launch_error(is_helper(*kernel.function->image))) return error;
  kernel.correlation = trace_launch();
  kernel.stream = static_cast<uint32_t>(stream->id);
  return submit(stream, std::move(work));
}

}  // namespace
}  // namespace rig

using namespace rig;

RIG_API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared_bytes, CUstream stream, void** parameters, void** extra) {
  unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launch(f, grid, block, shared_bytes, stream, parameters, extra, nullptr, 0, false);
}

RIG_API cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** parameters, void** extra) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  unsigned grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
  unsigned block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
  return launch(f, grid, block, c->sharedMemBytes, c->hStream, parameters, extra, c->attrs, c->numAttrs,
                false);
}

RIG_API cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                  unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream,
                                  void** parameters) {
  unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launch(f, grid, block, shared_bytes, stream, parameters, nullptr, nullptr, 0, true);
}

// Each with a function and a stream of its device's context; no stream may be a default one.
RIG_API cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned) {
  if (!list || !count) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUDA_LAUNCH_PARAMS& one = list[i];
    auto* stream = as<Stream>(one.hStream, Magic::stream);
    if (!stream) return CUDA_ERROR_INVALID_VALUE;
    unsigned grid[3] = {one.gridDimX, one.gridDimY, one.gridDimZ};
    unsigned block[3] = {one.blockDimX, one.blockDimY, one.blockDimZ};
    if (CUresult error = cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(stream->context))) return error;
    CUresult error = launch(one.function, grid, block, one.sharedMemBytes, one.hStream, one.kernelParams,
                            nullptr, nullptr, 0, true);
    CUcontext popped;
    cuCtxPopCurrent_v2(&popped);
    if (error) return error;
  }
  return CUDA_SUCCESS;
}

// --- what kernels and clients call ---------------------------------------------------------------

#define RIG_EXPORT extern "C" __attribute__((visibility("default")))

RIG_EXPORT void rig_fail(int error) {
  if (!frame) return;
  frame->status = static_cast<CUresult>(error);
  siglongjmp(frame->back, 1);
}

RIG_EXPORT void rig_print(const char* text) {
  print(text, frame != nullptr && frame->is_helper);
}

RIG_EXPORT void* rig_span(uint64_t address, size_t bytes) {
  void* at = Memory::instance().host(address, bytes);
  if (!at) rig_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  return at;
}

RIG_EXPORT void* rig_host(uint64_t address) {
  return rig_span(address, 1);
}

RIG_EXPORT void* rig_global(const rig_launch* launch, const char* name, size_t* bytes) {
  auto* module = static_cast<Module*>(launch->module);
  auto found = module->globals.find(name);
  if (found == module->globals.end()) return nullptr;
  if (bytes) *bytes = found->second.size;
  return Memory::instance().host(found->second.address, found->second.size);
}

RIG_EXPORT void rig_set_condition(uint64_t handle, unsigned value) {
  if (auto* condition = as<Condition>(reinterpret_cast<void*>(handle), Magic::condition))
    condition->value = value;
}

RIG_EXPORT unsigned long long rig_runs(const char* name) {
  std::lock_guard<std::mutex> lock(runs_mutex);
  auto found = runs().find(name ? name : "");
  return found == runs().end() ? 0 : found->second;
}
