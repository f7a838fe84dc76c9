// A libcuda.so.1 that does nothing: each hooked function notes its arguments and returns what it was
// told to. cuGetProcAddress answers by name, version and flags like the driver's.
#include <dlfcn.h>

#include <cstdlib>

#include "cuda/cuda_api.h"
#include "recording.h"
#include "resolver_checks.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Index : size_t {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) at_##symbol,
#include "cuda/hooks.def"
  count
};

Recorded records[count];
int wanted_result = 0;
bool hidden = false;
const char* missing = nullptr;
int (*observer)(void) = nullptr;

template <typename... Values>
CUresult record(Index index, const Values&... values) {
  records[index].calls++;
  records[index].arguments = digest_of(values...);
  records[index].passes = observer == nullptr ? -1 : observer();
  return static_cast<CUresult>(wanted_result);
}

struct At {
  Index index;

  template <typename... Values>
  CUresult operator()(Values... values) const {
    return record(index, values...);
  }
};

CUresult answer(const char* name, void** function, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult* status);

}  // namespace

EXPORT Recorded* dummy_record(size_t index) {
  return &records[index];
}
EXPORT void dummy_set_result(int result) {
  wanted_result = result;
}
EXPORT void dummy_set_hidden(int on) {
  hidden = on != 0;
}
EXPORT void dummy_set_missing(const char* name) {
  missing = name;
}
EXPORT void dummy_set_observer(int (*passes)(void)) {
  observer = passes;
}

// As the driver does: a library that the environment names is loaded, and asked to start.
EXPORT CUresult cuInit(unsigned int) {
  static bool done = false;
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (done || path == nullptr) return CUDA_SUCCESS;
  done = true;
  void* library = dlopen(path, RTLD_NOW);
  auto start =
      library == nullptr ? nullptr : reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (start != nullptr) start();
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = 13050;
  return CUDA_SUCCESS;
}

#define KERNCAP_HOOK(symbol, result, parameters, arguments) \
  EXPORT result symbol parameters {                         \
    return At{at_##symbol} arguments;                       \
  }
// The resolver's two are below.
#define cuGetProcAddress recorded_cuGetProcAddress
#define cuGetProcAddress_v2 recorded_cuGetProcAddress_v2
#include "cuda/hooks.def"
#undef cuGetProcAddress
#undef cuGetProcAddress_v2

EXPORT CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  record(at_cuGetProcAddress, symbol, pfn, cudaVersion, flags);
  return answer(symbol, pfn, cudaVersion, flags, nullptr);
}

EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult* symbolStatus) {
  record(at_cuGetProcAddress_v2, symbol, pfn, cudaVersion, flags, symbolStatus);
  return answer(symbol, pfn, cudaVersion, flags, symbolStatus);
}

// The resolver under a name that nobody wraps.
EXPORT CUresult dummy_resolver_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  return answer(symbol, pfn, cudaVersion, flags, status);
}

// Twins that dladdr can't name.
namespace twins {
#define KERNCAP_HOOK(symbol, result, parameters, arguments)   \
  __attribute__((noinline)) static result symbol parameters { \
    return At{at_##symbol} arguments;                         \
  }
#include "cuda/hooks.def"
}  // namespace twins

namespace {

struct Row {
  const char* name;
  int version;
  int per_thread;
  void* function;
  void* twin;
};

const Row* rows(size_t* size) {
  static const Row table[] = {
#define ROUTES_ROW(symbol, name, version, per_thread) \
  {name, version, per_thread, reinterpret_cast<void*>(&::symbol), reinterpret_cast<void*>(&twins::symbol)},
#include "resolver_rows.h"
  };
  *size = sizeof(table) / sizeof(table[0]);
  return table;
}

CUresult answer(const char* name, void** function, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult* status) {
  size_t size = 0;
  const Row* table = rows(&size);
  const Row* best = nullptr;
  bool known = false;
  for (size_t i = 0; i < size; ++i) {
    if (strcmp(table[i].name, name) != 0 || (missing != nullptr && strcmp(missing, name) == 0)) continue;
    known = true;
    if (table[i].version > version || (table[i].per_thread && flags != 2)) continue;
    // The per-thread spelling where it is asked for; within a spelling the newest.
    if (best == nullptr || table[i].per_thread > best->per_thread ||
        (table[i].per_thread == best->per_thread && table[i].version >= best->version))
      best = &table[i];
  }
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = best == nullptr ? nullptr : hidden ? best->twin : best->function;
  if (status != nullptr)
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return best == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace
