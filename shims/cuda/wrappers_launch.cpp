// Launches. A kernel that nobody watches costs one lookup, one counter and the gate; a watched one is
// described in full and handed to the capture, which makes the driver's call in the midst of it.
#include <algorithm>
#include <cstring>
#include <new>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/interpose.h"
#include "cuda/parameters.h"
#include "cuda/registry.h"
#include "cuda/stream_order.h"

namespace kerncap::cuda {
namespace {

// One launch call: what it asks for, and how to make it.
struct Request {
  const char* route;
  CUfunction function;
  Dim3 grid, block;
  unsigned int shared_bytes;
  CUstream stream;
  bool per_thread;  // `_ptsz`: a null stream is the thread's own
  bool cooperative;
  const CUlaunchConfig* config;  // of the extended calls
  void** parameters;
  void** extra;
};

void add_attributes(const CUlaunchConfig& config, Launch* launch) {
  for (unsigned int i = 0; i < config.numAttrs && config.attrs != nullptr; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    LaunchAttribute copy;
    copy.id = static_cast<uint32_t>(attribute.id);
    static_assert(sizeof(attribute.value) == sizeof(copy.value), "an attribute's value has 64 bytes");
    std::memcpy(copy.value, &attribute.value, sizeof copy.value);
    launch->attributes.push_back(copy);
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      launch->cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                         attribute.value.clusterDim.z};
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      launch->cooperative = attribute.value.cooperative != 0;
  }
}

Launch describe(const Request& request, Kernel* kernel) {
  Launch launch;
  launch.kernel = kernel;
  launch.grid = request.grid;
  launch.block = request.block;
  launch.shared_bytes = request.shared_bytes;
  launch.cooperative = request.cooperative;
  if (request.config != nullptr) add_attributes(*request.config, &launch);
  bool own = request.per_thread && request.stream == nullptr;
  launch.stream = own ? CU_STREAM_PER_THREAD : request.stream;
  CUcontext context = context_of(request.stream, request.per_thread);
  launch.context = context;
  launch.device = device_of(context);
  if (launch.device < 0) launch.device = std::max(0, current_device());
  launch.route = request.route;
  return launch;
}

// Inlined: a launch that nobody wants runs through one piece of code, with everything else behind a jump.
#define KERNCAP_INLINED __attribute__((always_inline)) inline
#define KERNCAP_ASIDE __attribute__((noinline, cold))

template <typename Call>
KERNCAP_INLINED CUresult pass(const Call& call, const Kernel* kernel = nullptr) noexcept {
  gate::Pass pass(kernel);
  return call();
}

// One that is no launch of a range; its kernel may wait for anything.
template <typename Call>
KERNCAP_INLINED CUresult passed(CUstream stream, bool per_thread, const Kernel* kernel,
                                const Call& call) noexcept {
  return stream_order::noted(pass(call, kernel), stream_order::Call::unknown, stream, per_thread);
}

template <typename Call>
CUresult watched(const Request& request, Kernel* kernel, const Call& call) noexcept {
  auto as_it_is = [&] { return passed(request.stream, request.per_thread, kernel, call); };
  Launch launch;
  const char* trouble = nullptr;
  try {
    launch = describe(request, kernel);
    if (!capture::lists_only())
      trouble = read_parameters(*kernel, request.parameters, request.extra, &launch.parameters);
  } catch (const std::bad_alloc&) {
    return as_it_is();  // memory is short: not captured
  }
  if (!capture::wants(launch)) return as_it_is();
  if (trouble != nullptr) {
    capture::refuse(kernel, trouble);
    return as_it_is();
  }
  auto invoke = [](void* context) noexcept -> int {
    return static_cast<int>((*static_cast<const Call*>(context))());
  };
  return static_cast<CUresult>(capture::run(launch, invoke, const_cast<Call*>(&call)));
}

template <typename Call>
KERNCAP_ASIDE CUresult looked_at(const Request& request, Kernel* kernel, const Call& call) noexcept {
  CUresult result = watched(request, kernel, call);
  capture::after_call(result);
  return result;
}

// Of a kernel that the driver does not know, or while a stream captures or a graph has stopped.
template <typename Call>
KERNCAP_ASIDE CUresult unusual(const Request& request, Kernel* kernel, const Call& call) noexcept {
  if (kernel == nullptr) return passed(request.stream, request.per_thread, kernel, call);
  // What a stream captures runs when its graph is launched, and counts there.
  if (captures_now(request.stream, request.per_thread)) {
    const CUresult result = passed(request.stream, request.per_thread, kernel, call);
    if (result == CUDA_SUCCESS && capture::asks_for_nodes())
      if (const void* node = captured_last(request.stream, request.per_thread))
        capture::became_node(*kernel, node);
    return result;
  }
  if (stopped_graphs.load(std::memory_order_relaxed) != 0) keep_order(kernel);
  capture::note(*kernel, request.grid, request.block, request.stream);
  if (capture::look(*kernel)) return looked_at(request, kernel, call);
  CUresult result = passed(request.stream, request.per_thread, kernel, call);
  capture::after_call(result);
  return result;
}

// `call` holds its arguments by value: their addresses are taken only of copies, aside.
template <typename Call>
KERNCAP_INLINED CUresult launch(const Request& request, const Call& call) noexcept {
  Kernel* kernel = kernel_of(request.function);
  const bool is_usual =
      kernel != nullptr && !is_capturing() && stopped_graphs.load(std::memory_order_relaxed) == 0;
  if (__builtin_expect(!is_usual, 0)) {
    const Request kept = request;
    const Call copy = call;
    return unusual(kept, kernel, copy);
  }
  capture::note(*kernel, request.grid, request.block, request.stream);
  if (__builtin_expect(capture::look(*kernel), 0)) {
    const Request kept = request;
    const Call copy = call;
    return looked_at(kept, kernel, copy);
  }
  CUresult result = passed(request.stream, request.per_thread, kernel, call);
  capture::after_call(result);
  return result;
}

KERNCAP_INLINED Request plain(const char* route, CUfunction function, Dim3 grid, Dim3 block,
                              unsigned int shared_bytes, CUstream stream, bool per_thread, bool cooperative,
                              void** parameters, void** extra) noexcept {
  return {route,      function,    grid,    block,      shared_bytes, stream,
          per_thread, cooperative, nullptr, parameters, extra};
}

KERNCAP_INLINED Request extended(const char* route, const CUlaunchConfig& config, CUfunction function,
                                 bool per_thread, void** parameters, void** extra) noexcept {
  return {route,
          function,
          {config.gridDimX, config.gridDimY, config.gridDimZ},
          {config.blockDimX, config.blockDimY, config.blockDimZ},
          config.sharedMemBytes,
          config.hStream,
          per_thread,
          false,
          &config,
          parameters,
          extra};
}

// The calls of CUDA 3 set their parameters one by one beforehand; nothing here has seen them.
template <typename Call>
CUresult legacy(const char* reason, CUfunction function, const Call& call) noexcept {
  Kernel* kernel = kernel_of(function);
  if (kernel != nullptr && capture::look(*kernel)) {
    Launch launch;
    launch.kernel = kernel;
    launch.device = std::max(0, current_device());
    launch.route = "cuLaunch";
    if (capture::wants(launch)) capture::refuse(kernel, reason);
  }
  CUresult result = stream_order::noted(pass(call), stream_order::Call::unknown, CUstream{}, false);
  capture::after_call(result);
  return result;
}

constexpr const char* old_launch =
    "it was launched with cuLaunch or cuLaunchGrid, whose parameters can't be read";
constexpr const char* multi_device =
    "it was launched with cuLaunchCooperativeKernelMultiDevice, which runs on several devices at once";

}  // namespace

CUresult wrap::cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                              unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                              unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                              void** kernelParams, void** extra) noexcept {
  return launch(plain("cuLaunchKernel", f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
                      sharedMemBytes, hStream, false, false, kernelParams, extra),
                [=] {
                  return driver()->cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                  blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
                });
}

CUresult wrap::cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                   void** kernelParams, void** extra) noexcept {
  return launch(
      plain("cuLaunchKernel_ptsz", f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
            sharedMemBytes, hStream, true, false, kernelParams, extra),
      [=] {
        return driver()->cuLaunchKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                             sharedMemBytes, hStream, kernelParams, extra);
      });
}

CUresult wrap::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                void** extra) noexcept {
  auto call = [=] { return driver()->cuLaunchKernelEx(config, f, kernelParams, extra); };
  if (config == nullptr) return call();
  return launch(extended("cuLaunchKernelEx", *config, f, false, kernelParams, extra), call);
}

CUresult wrap::cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                     void** extra) noexcept {
  auto call = [=] { return driver()->cuLaunchKernelEx_ptsz(config, f, kernelParams, extra); };
  if (config == nullptr) return call();
  return launch(extended("cuLaunchKernelEx_ptsz", *config, f, true, kernelParams, extra), call);
}

CUresult wrap::cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                         unsigned int gridDimZ, unsigned int blockDimX,
                                         unsigned int blockDimY, unsigned int blockDimZ,
                                         unsigned int sharedMemBytes, CUstream hStream,
                                         void** kernelParams) noexcept {
  return launch(
      plain("cuLaunchCooperativeKernel", f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ},
            sharedMemBytes, hStream, false, true, kernelParams, nullptr),
      [=] {
        return driver()->cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                   blockDimZ, sharedMemBytes, hStream, kernelParams);
      });
}

CUresult wrap::cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                              unsigned int gridDimZ, unsigned int blockDimX,
                                              unsigned int blockDimY, unsigned int blockDimZ,
                                              unsigned int sharedMemBytes, CUstream hStream,
                                              void** kernelParams) noexcept {
  return launch(
      plain("cuLaunchCooperativeKernel_ptsz", f, {gridDimX, gridDimY, gridDimZ},
            {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream, true, true, kernelParams, nullptr),
      [=] {
        return driver()->cuLaunchCooperativeKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                        blockDimZ, sharedMemBytes, hStream, kernelParams);
      });
}

CUresult wrap::cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList,
                                                    unsigned int numDevices, unsigned int flags) noexcept {
  auto call = [&] {
    return driver()->cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags);
  };
  if (launchParamsList == nullptr || numDevices == 0) return call();
  return legacy(multi_device, launchParamsList[0].function, call);
}

CUresult wrap::cuLaunch(CUfunction f) noexcept {
  return legacy(old_launch, f, [&] { return driver()->cuLaunch(f); });
}

CUresult wrap::cuLaunchGrid(CUfunction f, int grid_width, int grid_height) noexcept {
  return legacy(old_launch, f, [&] { return driver()->cuLaunchGrid(f, grid_width, grid_height); });
}

CUresult wrap::cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) noexcept {
  return legacy(old_launch, f,
                [&] { return driver()->cuLaunchGridAsync(f, grid_width, grid_height, hStream); });
}

}  // namespace kerncap::cuda
