// Start, contexts, the current one of each thread.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "memory.h"

namespace rig {

namespace {

// Never destroyed: programs call the driver until the very end of a thread.
thread_local std::vector<Context*>* stack_of_thread = nullptr;

std::vector<Context*>& stack() {
  if (!stack_of_thread) stack_of_thread = new std::vector<Context*>;
  return *stack_of_thread;
}
thread_local int callback_depth = 0;

Context* make_context(int device, unsigned flags, bool primary) {
  auto* context = new Context;
  context->device = device;
  context->primary = primary;
  context->flags = flags;
  std::lock_guard<std::mutex> lock(state().mutex);
  context->id = state().next_id++;
  context->legacy = make_stream(context, 0, 0);
  context->legacy->legacy = true;
  return context;
}

void end_context(Context* context) {
  drain(context);
  std::set<Module*> modules;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    modules = context->modules;
  }
  for (Module* module : modules) unload_module(module);
  Memory::instance().free_of(context);
  std::lock_guard<std::mutex> lock(state().mutex);
  for (Stream* stream : context->streams) stream->gone = true;
  context->streams.clear();
  state().changed.notify_all();
}

// state().mutex is held.
size_t limit_of(const Context& context, CUlimit limit) {
  auto found = context.limits.find(limit);
  if (found != context.limits.end()) return found->second;
  return limit == CU_LIMIT_MALLOC_HEAP_SIZE ? 8U << 20 : limit == CU_LIMIT_PRINTF_FIFO_SIZE ? 1U << 20 : 1024;
}

// As the real driver does at cuInit: the second way into a process, where no preload reaches.
void load_injection() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "rig: CUDA_INJECTION64_PATH: %s\n", dlerror());
    return;
  }
  using Initialize = int (*)();
  if (auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection"))) initialize();
}

}  // namespace

State& state() {
  static State* only = new State;
  return *only;
}

int current_tid() {
  return static_cast<int>(syscall(SYS_gettid));
}

InCallback::InCallback() {
  ++callback_depth;
}
InCallback::~InCallback() {
  --callback_depth;
}
bool InCallback::active() {
  return callback_depth > 0;
}

CUresult enter_without_context() {
  if (InCallback::active()) return CUDA_ERROR_NOT_PERMITTED;
  State& s = state();
  // A forked child inherits nothing that it could use.
  if (!s.initialised || s.pid != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  return CUDA_SUCCESS;
}

Context* current_context() {
  return stack().empty() ? nullptr : stack().back();
}

CUresult usable(Context* context) {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return static_cast<CUresult>(context->sticky.load());
}

CUresult enter(Context** context) {
  if (CUresult error = enter_without_context()) return error;
  *context = current_context();
  return usable(*context);
}

}  // namespace rig

using namespace rig;

RIG_API cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.initialised) return s.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    const char* text = std::getenv("KERNCAP_RIG_DEVICES");
    s.devices = text ? std::max(0, std::atoi(text)) : 1;
    if (!s.devices) return CUDA_ERROR_NO_DEVICE;
    s.primary.assign(static_cast<size_t>(s.devices), nullptr);
    s.pid = getpid();
    s.initialised = true;
  }
  load_injection();
  return CUDA_SUCCESS;
}

RIG_API cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  Context*& primary = state().primary[static_cast<size_t>(device)];
  static std::mutex making;
  std::lock_guard<std::mutex> lock(making);
  if (!primary) primary = make_context(device, 0, true);
  ++primary->retains;
  *out = reinterpret_cast<CUcontext>(primary);
  return CUDA_SUCCESS;
}

namespace {

// The handle of a primary context stays valid: retaining it again revives the same one.
void reset_primary(int device) {
  Context* primary = state().primary[static_cast<size_t>(device)];
  if (!primary) return;
  end_context(primary);
  primary->sticky = 0;
  std::lock_guard<std::mutex> lock(state().mutex);
  primary->legacy = make_stream(primary, 0, 0);
  primary->legacy->legacy = true;
}

CUresult release_primary(int device) {
  if (CUresult error = enter_without_context()) return error;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  Context* primary = state().primary[static_cast<size_t>(device)];
  if (!primary || primary->retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary->retains == 0) reset_primary(device);
  return CUDA_SUCCESS;
}

CUresult destroy_context(CUcontext handle) {
  if (CUresult error = enter_without_context()) return error;
  auto* context = as<Context>(handle, Magic::context);
  if (!context || context->dead || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  end_context(context);
  context->dead = true;
  if (!stack().empty() && stack().back() == context) stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult create_context(CUcontext* out, unsigned flags, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = make_context(device, flags, false);
  stack().push_back(context);
  *out = reinterpret_cast<CUcontext>(context);
  return CUDA_SUCCESS;
}

CUresult synchronize_context(Context* context) {
  if (CUresult error = usable(context)) return error;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    bool capturing = false;
    for (Stream* stream : context->streams) {
      if (!stream->capture) continue;
      stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      capturing = true;
    }
    if (capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  drain(context);
  write_printed();
  return usable(context);
}

}  // namespace

RIG_API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return release_primary(device);
}
RIG_API cuDevicePrimaryCtxRelease(CUdevice device) {
  return release_primary(device);
}

RIG_API cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  reset_primary(device);
  return CUDA_SUCCESS;
}
RIG_API cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}

RIG_API cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) {
  if (CUresult error = enter_without_context()) return error;
  return device >= 0 && device < state().devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
RIG_API cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

RIG_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (CUresult error = enter_without_context()) return error;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  Context* primary = state().primary[static_cast<size_t>(device)];
  if (flags) *flags = primary ? primary->flags : 0;
  if (active) *active = primary && primary->retains > 0;
  return CUDA_SUCCESS;
}

RIG_API cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context(out, flags, device);
}
RIG_API cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned flags, CUdevice device) {
  return create_context(out, flags, device);
}
RIG_API cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned flags, CUdevice device) {
  return create_context(out, flags, device);
}
RIG_API cuCtxDestroy_v2(CUcontext handle) {
  return destroy_context(handle);
}
RIG_API cuCtxDestroy(CUcontext handle) {
  return destroy_context(handle);
}

RIG_API cuCtxPushCurrent_v2(CUcontext handle) {
  if (CUresult error = enter_without_context()) return error;
  auto* context = as<Context>(handle, Magic::context);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  stack().push_back(context);
  return CUDA_SUCCESS;
}
RIG_API cuCtxPushCurrent(CUcontext handle) {
  return cuCtxPushCurrent_v2(handle);
}

RIG_API cuCtxPopCurrent_v2(CUcontext* out) {
  if (CUresult error = enter_without_context()) return error;
  if (stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = reinterpret_cast<CUcontext>(stack().back());
  stack().pop_back();
  return CUDA_SUCCESS;
}
RIG_API cuCtxPopCurrent(CUcontext* out) {
  return cuCtxPopCurrent_v2(out);
}

RIG_API cuCtxSetCurrent(CUcontext handle) {
  if (CUresult error = enter_without_context()) return error;
  auto* context = as<Context>(handle, Magic::context);
  if (handle && !context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack().empty()) stack().pop_back();
  if (context) stack().push_back(context);
  return CUDA_SUCCESS;
}

RIG_API cuCtxGetCurrent(CUcontext* out) {
  if (CUresult error = enter_without_context()) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(current_context());
  return CUDA_SUCCESS;
}

RIG_API cuCtxGetDevice(CUdevice* device) {
  if (CUresult error = enter_without_context()) return error;
  Context* context = current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}
RIG_API cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  auto* context = handle ? as<Context>(handle, Magic::context) : current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

RIG_API cuCtxGetFlags(unsigned* flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  *flags = context->flags;
  return CUDA_SUCCESS;
}
RIG_API cuCtxSetFlags(unsigned flags) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  context->flags = flags;
  return CUDA_SUCCESS;
}

RIG_API cuCtxGetId(CUcontext handle, unsigned long long* id) {
  auto* context = handle ? as<Context>(handle, Magic::context) : current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

RIG_API cuCtxSynchronize(void) {
  if (CUresult error = enter_without_context()) return error;
  return synchronize_context(current_context());
}
RIG_API cuCtxSynchronize_v2(CUcontext handle) {
  if (CUresult error = enter_without_context()) return error;
  return synchronize_context(handle ? as<Context>(handle, Magic::context) : current_context());
}

RIG_API cuCtxSetLimit(CUlimit limit, size_t value) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && context->heap != 0) return CUDA_ERROR_INVALID_VALUE;
  context->limits[limit] = value;
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE) limit_printing(value);
  return CUDA_SUCCESS;
}
RIG_API cuCtxGetLimit(size_t* value, CUlimit limit) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  wake_printing();
  std::lock_guard<std::mutex> lock(state().mutex);
  *value = limit_of(*context, limit);
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) uint64_t rig_heap(const rig_launch* launch, size_t bytes) {
  Context* context = static_cast<Module*>(launch->module)->context;
  std::lock_guard<std::mutex> lock(state().mutex);
  size_t size = limit_of(*context, CU_LIMIT_MALLOC_HEAP_SIZE);
  if (context->heap == 0) {
    Allocation allocation;
    allocation.size = size;
    allocation.device = context->device;
    allocation.context = context;
    allocation.is_hidden = true;
    if (Memory::instance().allocate(&allocation) != CUDA_SUCCESS) return 0;
    context->heap = allocation.base;
  }
  if (bytes > size - context->heap_taken) return 0;
  context->heap_taken += bytes;
  return context->heap + context->heap_taken - bytes;
}

RIG_API cuCtxGetCacheConfig(CUfunc_cache* config) {
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}
RIG_API cuCtxSetCacheConfig(CUfunc_cache) {
  return CUDA_SUCCESS;
}
RIG_API cuCtxResetPersistingL2Cache(void) {
  return CUDA_SUCCESS;
}

RIG_API cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = 3020;
  return CUDA_SUCCESS;
}

RIG_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

RIG_API cuCtxEnablePeerAccess(CUcontext, unsigned) {
  return CUDA_SUCCESS;
}
RIG_API cuCtxDisablePeerAccess(CUcontext) {
  return CUDA_SUCCESS;
}
