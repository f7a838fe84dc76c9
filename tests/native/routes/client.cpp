// client ROUTE: calls every hooked function by one route and compares what the driver saw. Prints what
// went wrong, a line each; the exit status is the number of lines, at most 100.
#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/cuda_api.h"
#include "recording.h"

extern "C" {
typedef CUresult (*Resolver)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
extern Resolver dummy_cudart_resolver;
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long, int*);
int cudaGetDriverEntryPoint_ptsz(const char*, void**, unsigned long long, int*);
int cudaGetDriverEntryPointByVersion(const char*, void**, unsigned int, unsigned long long, int*);
int cudaGetDriverEntryPointByVersion_ptsz(const char*, void**, unsigned int, unsigned long long, int*);
// Those that cuda.h keeps under its macros only.
#define KERNCAP_HOOK(symbol, result, parameters, arguments) result symbol parameters;
#include "cuda/hooks.def"
}

namespace {

int failures = 0;

__attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  puts("");
  ++failures;
}

// --- arguments: every pointer leads into zeros of its own, every number is another one ----------------

constexpr size_t room = 4096;
alignas(64) char zeros[32 * room];

template <typename T>
T argument(size_t position, int seed) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(zeros + position * room);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(position + static_cast<size_t>(seed));
  } else {
    T value{};
    memset(&value, static_cast<int>(position) + seed, sizeof value);
    return value;
  }
}

struct Call {
  CUresult result;
  uint64_t digest;
};

template <typename... Types, size_t... positions>
Call call_with(CUresult (*function)(Types...), [[maybe_unused]] int seed, std::index_sequence<positions...>) {
  auto values = std::make_tuple(argument<Types>(positions, seed)...);
  uint64_t digest = std::apply([](const auto&... each) { return digest_of(each...); }, values);
  return {std::apply(function, values), digest};
}

template <typename... Types>
Call call(CUresult (*function)(Types...), int seed) {
  memset(zeros, 0, sizeof zeros);
  return call_with(function, seed, std::index_sequence_for<Types...>());
}

// --- the hooked functions ---------------------------------------------------------------------------------

struct Hooked {
  const char* name;
  size_t index;
  void* bound;  // as the linker bound this program's own reference
  Call (*invoke)(void* function, int seed);
  bool gated;
};

enum Index : size_t {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) at_##symbol,
#include "cuda/hooks.def"
  count
};

template <typename Function>
Call invoke(void* function, int seed) {
  return call(reinterpret_cast<Function>(function), seed);
}

const Hooked hooked[] = {
#define ENTRY(symbol, gated) \
  {#symbol, at_##symbol, reinterpret_cast<void*>(&::symbol), &invoke<decltype(&::symbol)>, gated},
#define KERNCAP_HOOK(symbol, result, parameters, arguments) ENTRY(symbol, false)
#define KERNCAP_GATED(symbol, parameters, arguments) ENTRY(symbol, true)
#include "cuda/hooks.def"
};

// The resolver's own two answer for themselves; they are the route in other scenes.
bool is_resolver(const Hooked& hook) {
  return hook.index == at_cuGetProcAddress || hook.index == at_cuGetProcAddress_v2;
}

// The function was reached through a wrapper, and the driver's got the same once.
void check(const Hooked& hook, void* function, const char* route) {
  if (function == nullptr) return fail("%s by %s: not found", hook.name, route);
  if (function != hook.bound) return fail("%s by %s: another pointer than by ELF binding", hook.name, route);
  if (is_resolver(hook)) return;
  for (int result : {999, 0}) {
    dummy_set_result(result);
    Recorded before = *dummy_record(hook.index);
    Call made = hook.invoke(function, result == 0 ? 3 : 5);
    Recorded after = *dummy_record(hook.index);
    dummy_set_result(0);
    if (after.calls != before.calls + 1)
      fail("%s by %s: the driver's was called %zu times", hook.name, route, after.calls - before.calls);
    if (after.arguments != made.digest) fail("%s by %s: other arguments arrived", hook.name, route);
    if (made.result != static_cast<CUresult>(result))
      fail("%s by %s: result %d", hook.name, route, made.result);
    if (hook.gated && after.passes != 1)
      fail("%s by %s: %d passes at the gate", hook.name, route, after.passes);
  }
}

// The address that the shim exports: the program is bound to it, or it is not wrapped at all.
void expect_bound_to_shim() {
  Dl_info info = {};
  const char* path = getenv("ROUTES_SHIM");
  for (const Hooked& hook : hooked)
    if (dladdr(hook.bound, &info) == 0 || path == nullptr || strcmp(info.dli_fname, path) != 0)
      fail("%s is bound to %s", hook.name, info.dli_fname);
}

void* driver_handle() {
  return dlopen("libcuda.so.1", RTLD_NOW);
}

void by_elf() {
  expect_bound_to_shim();
  for (const Hooked& hook : hooked) check(hook, hook.bound, "ELF binding");
}

void by_dlsym() {
  void* handle = driver_handle();
  for (const Hooked& hook : hooked) {
    check(hook, dlsym(RTLD_DEFAULT, hook.name), "dlsym(RTLD_DEFAULT)");
    check(hook, dlsym(RTLD_NEXT, hook.name), "dlsym(RTLD_NEXT)");
    check(hook, dlsym(handle, hook.name), "dlsym(handle)");
  }
}

void by_dlvsym() {
  void* handle = driver_handle();
  for (const Hooked& hook : hooked) {
    check(hook, dlvsym(RTLD_DEFAULT, hook.name, "ROUTES_1"), "dlvsym(RTLD_DEFAULT)");
    check(hook, dlvsym(handle, hook.name, "ROUTES_1"), "dlvsym(handle)");
  }
}

struct Row {
  size_t index;
  const char* name;
  int version;
  int per_thread;
};

const Row rows[] = {
#define ROUTES_ROW(symbol, name, version, per_thread) {at_##symbol, name, version, per_thread},
#include "resolver_rows.h"
};

const Row* expected(const char* name, int version, cuuint64_t flags) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (strcmp(row.name, name) != 0 || row.version > version || (row.per_thread && flags != 2)) continue;
    if (best == nullptr || row.per_thread > best->per_thread ||
        (row.per_thread == best->per_thread && row.version >= best->version))
      best = &row;
  }
  return best;
}

template <typename Ask>
void by_resolver(const char* route, Ask&& ask) {
  std::vector<int> versions;
  for (const Row& row : rows) versions.push_back(row.version);
  std::vector<bool> called(count, false);
  for (const Row& row : rows) {
    for (int version : versions) {
      for (cuuint64_t flags : {0, 1, 2}) {
        void* function = nullptr;
        int result = ask(row.name, &function, version, flags);
        const Row* wanted = expected(row.name, version, flags);
        if (wanted == nullptr) {
          if (result == 0 || function != nullptr) fail("%s %d by %s: invented", row.name, version, route);
          continue;
        }
        const Hooked& hook = hooked[wanted->index];
        if (result != 0) fail("%s %d by %s: status %d", row.name, version, route, result);
        if (function != hook.bound) {
          fail("%s version %d flags %d by %s: not the wrapper of %s", row.name, version,
               static_cast<int>(flags), route, hook.name);
        } else if (!called[wanted->index]) {
          called[wanted->index] = true;
          check(hook, function, route);
        }
      }
    }
    if (failures > 50) return;
  }
  for (const Hooked& hook : hooked)
    if (!called[hook.index]) fail("%s by %s: no version asks for it", hook.name, route);
}

void by_proc_address_v1() {
  by_resolver("cuGetProcAddress", [](const char* name, void** function, int version, cuuint64_t flags) {
    return static_cast<int>(cuGetProcAddress(name, function, version, flags));
  });
}

int ask_v2(const char* name, void** function, int version, cuuint64_t flags) {
  // NVIDIA's runtime gets the resolver by dlsym and never binds to it.
  static auto resolver = reinterpret_cast<Resolver>(dlsym(driver_handle(), "cuGetProcAddress_v2"));
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  CUresult result = resolver(name, function, version, flags, &status);
  bool found = status == CU_GET_PROC_ADDRESS_SUCCESS;
  if (found != (result == CUDA_SUCCESS)) fail("%s: symbolStatus %d with result %d", name, status, result);
  return result;
}

void by_proc_address_v2() {
  by_resolver("cuGetProcAddress_v2", ask_v2);
}

void by_hidden_answers() {
  dummy_set_hidden(1);
  by_resolver("cuGetProcAddress_v2, functions that are not exported", ask_v2);
  dummy_set_hidden(0);
}

void by_runtime() {
  // What the runtime holds is the driver's own: it looked before we could wrap it.
  void* handle = driver_handle();
  dummy_cudart_resolver = reinterpret_cast<Resolver>(dlsym(handle, "dummy_resolver_v2"));
  by_resolver("cudaGetDriverEntryPointByVersion", [](const char* name, void** function, int version,
                                                     cuuint64_t flags) {
    return cudaGetDriverEntryPointByVersion(name, function, static_cast<unsigned>(version), flags, nullptr);
  });
  for (const char* name : {"cudaGetDriverEntryPoint", "cudaGetDriverEntryPoint_ptsz"}) {
    auto ask = reinterpret_cast<decltype(&cudaGetDriverEntryPoint)>(
        dlsym(dlopen("libcudart.so.13", RTLD_NOW), name));
    for (const Row& row : rows) {
      void* function = nullptr;
      bool per_thread = strstr(name, "_ptsz") != nullptr;
      const Row* wanted = expected(row.name, 13000, per_thread ? 2 : 0);
      int result = ask(row.name, &function, 0, nullptr);
      if (wanted == nullptr) continue;
      if (result != 0 || function != hooked[wanted->index].bound) fail("%s by %s", row.name, name);
    }
  }
}

// What is not ours passes untouched, and nothing is made up.
void strangers() {
  void* handle = driver_handle();
  if (dlsym(handle, "cuInit") != dlsym(RTLD_DEFAULT, "cuInit")) fail("cuInit: two pointers");
  if (dlvsym(handle, "cuLaunchKernel", "NONE_1") != nullptr)
    fail("cuLaunchKernel was found in a version that is none");
  if (dlsym(RTLD_DEFAULT, "cuNoSuchFunction") != nullptr) fail("cuNoSuchFunction was found");
  if (dlerror() == nullptr) fail("dlerror says nothing about cuNoSuchFunction");
  if (dlsym(RTLD_NEXT, "cudnnCreate") != nullptr) fail("cudnnCreate was found");
  if (dlsym(RTLD_DEFAULT, "printf") != reinterpret_cast<void*>(&printf)) fail("printf is another one");
  void* function = zeros;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  dummy_set_missing("cuLaunchKernel");
  CUresult result = cuGetProcAddress_v2("cuLaunchKernel", &function, 13000, 0, &status);
  if (result != CUDA_ERROR_NOT_FOUND || function != nullptr || status != CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
    fail("an entry point that this driver lacks was made up");
  dummy_set_missing(nullptr);
  if (cuGetProcAddress_v2("cuLaunchKernel", nullptr, 13000, 0, &status) == CUDA_SUCCESS)
    fail("no place, success");
}

// Whether this call went through a wrapper: then a pass is held while the driver's function runs.
void expect_launch(const char* how, CUresult (*launch)(), int passes) {
  Recorded before = *dummy_record(at_cuMemcpy);
  CUresult result = launch();
  Recorded after = *dummy_record(at_cuMemcpy);
  if (result != CUDA_SUCCESS || after.calls != before.calls + 1 || after.passes != passes)
    fail("%s: result %d, %zu calls, %d passes", how, result, after.calls - before.calls, after.passes);
}

CUresult copy_here() {
  return cuMemcpy(1, 2, 3);
}

void observe(const char* shim) {
  void* library = shim == nullptr ? nullptr : dlopen(shim, RTLD_NOW | RTLD_NOLOAD);
  auto passes = library == nullptr ? nullptr : dlsym(library, "routes_passes");
  if (passes != nullptr) dummy_set_observer(reinterpret_cast<int (*)()>(passes));
}

// With no preload at all: the driver loads the shim at cuInit, and the program's imports lead to it.
void injected() {
  expect_launch("before cuInit", copy_here, -1);
  cuInit(0);
  observe(getenv("ROUTES_SHIM"));
  expect_launch("after cuInit", copy_here, 1);
  void* found = dlsym(driver_handle(), "cuMemcpy");
  Dl_info info = {};
  if (dladdr(found, &info) == 0 || strstr(info.dli_fname, "libkerncap_routes") == nullptr)
    fail("dlsym gives cuMemcpy of %s", info.dli_fname);
  if (dlsym(RTLD_DEFAULT, "cuNoSuchFunction") != nullptr) fail("cuNoSuchFunction was found");
  void* other = dlopen(getenv("ROUTES_PLUGIN"), RTLD_NOW);
  auto plugin = reinterpret_cast<CUresult (*)()>(other == nullptr ? nullptr : dlsym(other, "plugin_copy"));
  if (plugin == nullptr) return fail("no plugin: %s", dlerror());
  CUmodule module;
  cuModuleLoadData(&module, zeros);
  expect_launch("a library that was loaded later, after a module", plugin, 1);
}

// A library that binds past the preload is reached once the driver has loaded an image.
void deepbind() {
  observe(getenv("ROUTES_SHIM"));
  void* other = dlopen(getenv("ROUTES_PLUGIN"), RTLD_NOW | RTLD_DEEPBIND);
  auto plugin = reinterpret_cast<CUresult (*)()>(other == nullptr ? nullptr : dlsym(other, "plugin_copy"));
  if (plugin == nullptr) return fail("no plugin: %s", dlerror());
  expect_launch("before", plugin, 0);
  CUmodule module;
  cuModuleLoadData(&module, zeros);
  expect_launch("after an image was loaded", plugin, 1);
  auto lookup = reinterpret_cast<void* (*)(const char*)>(dlsym(other, "plugin_lookup"));
  if (lookup("cuMemcpy") != hooked[at_cuMemcpy].bound) fail("its dlsym gives another pointer");
}

// No session: the resolver and dlsym give the driver's own, and the wrappers only call on.
void unarmed() {
  observe(getenv("ROUTES_SHIM"));
  expect_launch("a bound call", copy_here, 0);
  Dl_info info = {};
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  auto is_drivers = [&](void* found) {
    return dladdr(found, &info) != 0 && strstr(info.dli_fname, "libcuda.so.1") != nullptr;
  };
  for (const Hooked& hook : hooked)
    if (!is_drivers(dlsym(driver_handle(), hook.name)))
      fail("%s by dlsym is of %s", hook.name, info.dli_fname);
  cuGetProcAddress_v2("cuLaunchKernel", &function, 13000, 0, &status);
  if (!is_drivers(function)) fail("cuLaunchKernel by cuGetProcAddress is of %s", info.dli_fname);
}

// Beside another tool's preload, whichever is first: each sees the call, the driver's is made once.
void chained() {
  auto* launches = static_cast<int*>(dlsym(RTLD_DEFAULT, "other_launches"));
  auto* lookups = static_cast<int*>(dlsym(RTLD_DEFAULT, "other_lookups"));
  if (launches == nullptr || lookups == nullptr) return fail("the other preload is not there");
  int before = *launches;
  expect_launch("a function that only we wrap", copy_here, 1);
  Recorded old = *dummy_record(at_cuLaunchGridAsync);
  if (cuLaunchGridAsync(nullptr, 1, 2, nullptr) != CUDA_SUCCESS) fail("cuLaunchGridAsync failed");
  Recorded now = *dummy_record(at_cuLaunchGridAsync);
  if (now.calls != old.calls + 1 || now.passes != 1 || *launches != before + 1)
    fail("bound: %zu calls, %d passes, the other saw %d", now.calls - old.calls, now.passes,
         *launches - before);
  auto by_handle =
      reinterpret_cast<decltype(&cuLaunchGridAsync)>(dlsym(driver_handle(), "cuLaunchGridAsync"));
  by_handle(nullptr, 1, 2, nullptr);
  Recorded last = *dummy_record(at_cuLaunchGridAsync);
  if (last.calls != now.calls + 1 || last.passes != 1)
    fail("by dlsym: %zu calls, %d passes", last.calls - now.calls, last.passes);
  if (*lookups == 0) fail("the other preload saw no lookup");
  if (dlsym(RTLD_DEFAULT, "cuNoSuchFunction") != nullptr) fail("cuNoSuchFunction was found");
}

struct Scene {
  const char* name;
  void (*run)();
};

const Scene scenes[] = {
    {"elf", by_elf},
    {"dlsym", by_dlsym},
    {"dlvsym", by_dlvsym},
    {"cuGetProcAddress", by_proc_address_v1},
    {"cuGetProcAddress_v2", by_proc_address_v2},
    {"hidden", by_hidden_answers},
    {"cudaGetDriverEntryPoint", by_runtime},
    {"strangers", strangers},
    {"injected", injected},
    {"deepbind", deepbind},
    {"unarmed", unarmed},
    {"chained", chained},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 101;
  dummy_set_observer(reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "routes_passes")));
  for (const Scene& scene : scenes) {
    if (strcmp(scene.name, argv[1]) != 0) continue;
    scene.run();
    return failures > 100 ? 100 : failures;
  }
  printf("no scene %s\n", argv[1]);
  return 102;
}
