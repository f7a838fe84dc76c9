// Kernels and modules. Streams, contexts and captures: registry_streams.cpp.
#include "cuda/registry.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/memory_map.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/images.h"

namespace kerncap::cuda {
namespace {

// What is known of a handle before its first launch.
struct Noted {
  Module* module = nullptr;
  std::string name;
  bool is_kernel = false;
};

// Never destroyed: threads launch while the process exits.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Noted> noted;
  std::unordered_map<const void*, Module*> modules;
  std::unordered_map<const void*, Module*> libraries;
};

Registry& registry() noexcept {
  static auto* instance = new Registry;
  return *instance;
}

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

// Asks about one parameter after the other until the driver says that there is no more: it has no
// function that counts them (before CUDA 13.2).
template <typename Ask>
void read_layout(Kernel* kernel, Ask&& ask) {
  size_t offset = 0, size = 0;
  for (size_t i = 0; ask(i, &offset, &size) == CUDA_SUCCESS; ++i)
    kernel->layout.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
  kernel->layout_known = true;
}

void find_layout(Kernel* kernel, const Driver& real, bool is_kernel) {
  auto function = static_cast<CUfunction>(kernel->handle);
  auto handle = static_cast<CUkernel>(kernel->handle);
  if (is_kernel && real.cuKernelGetParamInfo != nullptr) {
    read_layout(kernel, [&](size_t i, size_t* at, size_t* size) {
      return real.cuKernelGetParamInfo(handle, i, at, size);
    });
  } else if (!is_kernel && real.cuFuncGetParamInfo != nullptr) {
    read_layout(kernel, [&](size_t i, size_t* at, size_t* size) {
      return real.cuFuncGetParamInfo(function, i, at, size);
    });
  } else if (kernel->module != nullptr && kernel->module->image != nullptr) {
    kernel->layout_known = layout_in_cubin(*kernel->module->image, kernel->name, &kernel->layout);
  }
  for (const Parameter& parameter : kernel->layout)
    kernel->parameter_bytes = std::max(kernel->parameter_bytes, parameter.offset + parameter.size);
}

// The library that `module` is of. A graph's node names the CUfunction behind a CUkernel, and the target
// itself may never have asked for that function or its module.
Module* library_behind(const Driver& real, CUmodule module, const char* name) {
  if (real.cuLibraryGetKernel == nullptr || real.cuLibraryGetModule == nullptr) return nullptr;
  std::vector<Module*> libraries;
  {
    Registry& all = registry();
    std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto& entry : all.libraries) libraries.push_back(entry.second);
  }
  for (Module* library : libraries) {
    auto handle = static_cast<CUlibrary>(library->handle);
    CUkernel kernel = nullptr;
    CUmodule loaded = nullptr;
    // Only where the kernel is: to ask for its module would load the library otherwise.
    if (real.cuLibraryGetKernel(&kernel, handle, name) == CUDA_SUCCESS &&
        real.cuLibraryGetModule(&loaded, handle) == CUDA_SUCCESS && loaded == module)
      return library;
  }
  return nullptr;
}

// Whether the driver knows the handle as a CUfunction or as a CUkernel, and its name.
bool ask_driver(const Driver& real, void* handle, Noted* noted) {
  const char* name = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  if (real.cuFuncGetName != nullptr &&
      real.cuFuncGetName(&name, static_cast<CUfunction>(handle)) == CUDA_SUCCESS && name != nullptr) {
    noted->name = name;
    if (real.cuFuncGetModule != nullptr &&
        real.cuFuncGetModule(&module, static_cast<CUfunction>(handle)) == CUDA_SUCCESS)
      noted->module = module_of(module);
    if (noted->module == nullptr && module != nullptr) noted->module = library_behind(real, module, name);
    return true;
  }
  if (real.cuKernelGetName == nullptr ||
      real.cuKernelGetName(&name, static_cast<CUkernel>(handle)) != CUDA_SUCCESS || name == nullptr)
    return false;
  noted->name = name;
  noted->is_kernel = true;
  if (real.cuKernelGetLibrary != nullptr &&
      real.cuKernelGetLibrary(&library, static_cast<CUkernel>(handle)) == CUDA_SUCCESS)
    noted->module = library_of(library);
  return true;
}

}  // namespace

KERNCAP_READ_BY_EACH_CALL HandleTable detail::kernels;

Kernel* detail::make_kernel(void* handle) noexcept try {
  const Driver* real = driver();
  if (real == nullptr || handle == nullptr) return nullptr;
  if (stopped_graphs.load(std::memory_order_relaxed) != 0) await_stopped_graphs();  // its code may be loaded
  gate::Own own;
  Registry& all = registry();
  Noted noted;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    auto found = all.noted.find(handle);
    if (found != all.noted.end()) noted = found->second;
  }
  if (noted.name.empty() && !ask_driver(*real, handle, &noted)) return nullptr;
  auto* kernel = new Kernel;
  kernel->handle = handle;
  kernel->name = noted.name;
  kernel->demangled = demangle(noted.name);
  kernel->module = noted.module;
  find_layout(kernel, *real, noted.is_kernel);
  std::lock_guard<std::mutex> lock(all.mutex);
  if (Kernel* other = detail::kernels.find(handle)) {  // another thread was faster
    delete kernel;
    return other;
  }
  detail::kernels.put(handle, kernel);
  return kernel;
} catch (const std::bad_alloc&) {
  return nullptr;  // memory is short: its launches are not seen
}

namespace {

void note(std::unordered_map<const void*, Module*>& map, void* handle, Image* image, bool is_library) noexcept
    try {
  auto* module = new Module;
  module->handle = handle;
  module->is_library = is_library;
  module->image = image;
  if (!is_library) module->device = current_device();
  std::lock_guard<std::mutex> lock(registry().mutex);
  map[handle] = module;
} catch (const std::bad_alloc&) {
  // Launches out of it are captured without an image.
}

Module* find(std::unordered_map<const void*, Module*>& map, const void* handle) noexcept {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto found = map.find(handle);
  return found == map.end() ? nullptr : found->second;
}

void forget(std::unordered_map<const void*, Module*>& map, const void* handle) noexcept {
  Registry& all = registry();
  Module* module = nullptr;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    auto found = map.find(handle);
    if (found == map.end()) return;
    module = found->second;
    map.erase(found);
    module->gone.store(true, std::memory_order_release);
    detail::kernels.remove_if([&](const void*, const Kernel& kernel) { return kernel.module == module; });
    for (auto entry = all.noted.begin(); entry != all.noted.end();)
      entry = entry->second.module == module ? all.noted.erase(entry) : std::next(entry);
    for (auto entry = all.modules.begin(); entry != all.modules.end();)
      entry = entry->second == module ? all.modules.erase(entry) : std::next(entry);
  }
  MemoryMap::instance().remove_module(module);
}

void note_handle(void* handle, Module* module, const char* name, bool is_kernel) noexcept try {
  if (handle == nullptr || name == nullptr) return;
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  const Kernel* known = detail::kernels.find(handle);
  // The same handle for another function: what it was went with its context.
  if (known != nullptr && known->module == module && known->name == name) return;
  if (known != nullptr)
    detail::kernels.remove_if([&](const void* key, const Kernel&) { return key == handle; });
  all.noted[handle] = {module, name, is_kernel};
} catch (const std::bad_alloc&) {
  // The driver is asked at its first launch.
}

}  // namespace

Module* module_of(CUmodule module) noexcept {
  return find(registry().modules, module);
}

Module* library_of(CUlibrary library) noexcept {
  return find(registry().libraries, library);
}

void note_module(CUmodule module, Image* image) noexcept {
  note(registry().modules, module, image, false);
}

void note_library(CUlibrary library, Image* image) noexcept {
  note(registry().libraries, library, image, true);
}

void note_library_module(CUmodule module, CUlibrary library) noexcept {
  Module* known = library_of(library);
  if (known == nullptr) return;
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.modules[module] = known;
}

void note_function(CUfunction function, CUmodule module, const char* name) noexcept {
  note_handle(function, module_of(module), name, false);
}

void note_kernel(CUkernel kernel, CUlibrary library, const char* name) noexcept {
  note_handle(kernel, library_of(library), name, true);
}

void note_kernel_function(CUfunction function, CUkernel kernel) noexcept {
  Kernel* known = kernel_of(reinterpret_cast<CUfunction>(kernel));
  if (known == nullptr || function == nullptr) return;
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (detail::kernels.find(function) == nullptr) detail::kernels.put(function, known);
}

void forget_device_modules(int device) noexcept {
  Registry& all = registry();
  auto ends = [&](const Module* module) {
    return module != nullptr && !module->is_library && module->device == device;
  };
  std::lock_guard<std::mutex> lock(all.mutex);
  // A library and its kernels are of no context; the functions that they have in one are.
  detail::kernels.remove_if(
      [&](const void* key, const Kernel& kernel) { return ends(kernel.module) || kernel.handle != key; });
  for (auto entry = all.noted.begin(); entry != all.noted.end();)
    entry = ends(entry->second.module) ? all.noted.erase(entry) : std::next(entry);
  for (auto entry = all.modules.begin(); entry != all.modules.end();) {
    if (ends(entry->second)) entry->second->gone.store(true, std::memory_order_release);
    bool gone = ends(entry->second) || entry->second->is_library;
    entry = gone ? all.modules.erase(entry) : std::next(entry);
  }
}

void forget_module(CUmodule module) noexcept {
  forget(registry().modules, module);
}

void forget_library(CUlibrary library) noexcept {
  forget(registry().libraries, library);
}

std::vector<Global> globals_of(const Module& module, const std::vector<std::string>& names) noexcept {
  std::vector<Global> found;
  const Driver* real = driver();
  if (real == nullptr || module.gone.load(std::memory_order_acquire)) return found;
  gate::Own own;
  auto library = static_cast<CUlibrary>(module.handle);
  for (const std::string& name : names) {
    Global global;
    global.name = name;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (!module.is_library) {
      result = real->cuModuleGetGlobal_v2(&global.address, &global.size, static_cast<CUmodule>(module.handle),
                                          name.c_str());
    } else {
      if (real->cuLibraryGetGlobal != nullptr)
        result = real->cuLibraryGetGlobal(&global.address, &global.size, library, name.c_str());
      if (result != CUDA_SUCCESS && real->cuLibraryGetManaged != nullptr) {
        result = real->cuLibraryGetManaged(&global.address, &global.size, library, name.c_str());
        global.managed = result == CUDA_SUCCESS;
      }
    }
    if (result == CUDA_SUCCESS && global.size != 0) found.push_back(std::move(global));
  }
  return found;
}

namespace detail {
void lock_registry() noexcept {
  registry().mutex.lock();
}
void unlock_registry() noexcept {
  registry().mutex.unlock();
}
void forget_kernels_after_fork() noexcept {
  Registry& all = registry();
  detail::kernels.remove_if([](const void*, const Kernel&) { return true; });
  all.noted.clear();
  all.modules.clear();
  all.libraries.clear();
}
}  // namespace detail

}  // namespace kerncap::cuda
