// Modules, libraries, their functions and variables.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "memory.h"

namespace rig {

CUresult load_module(Context* context, std::shared_ptr<ParsedImage> image, Library* library, Module** out) {
  auto* module = new Module;
  module->context = context;
  module->library = library;
  module->image = std::move(image);
  for (const KernelImage& kernel : module->image->kernels) {
    auto function = std::make_unique<Function>();
    function->module = module;
    function->image = &kernel;
    module->functions[kernel.name] = std::move(function);
  }
  for (const Variable& variable : module->image->variables) {
    if (!variable.size) continue;
    Allocation allocation;
    allocation.size = variable.size;
    allocation.kind = variable.managed ? Kind::managed : Kind::global;
    allocation.device = context->device;
    allocation.context = context;
    if (CUresult error = Memory::instance().allocate(&allocation)) return error;
    auto* bytes = static_cast<uint8_t*>(Memory::instance().host(allocation.base, variable.size));
    std::memset(bytes, 0, variable.size);
    std::memcpy(bytes, variable.initial.data(), std::min(variable.initial.size(), variable.size));
    module->globals[variable.name] = {allocation.base, variable.size};
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  context->modules.insert(module);
  *out = module;
  return CUDA_SUCCESS;
}

void unload_module(Module* module) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (module->gone) return;
    module->gone = true;
    module->context->modules.erase(module);
    if (module->library) module->library->modules.erase(module->context);
  }
  for (const auto& [name, global] : module->globals) {
    Allocation found;
    if (Memory::instance().find(global.address, &found)) Memory::instance().free(global.address, found.kind);
  }
}

namespace {

CUresult load(CUmodule* out, const void* image, size_t size) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  drain(context);  // loading waits for a busy device, as measured on the real one
  auto parsed = std::make_shared<ParsedImage>();
  if (CUresult error = parse_image(image, size, parsed.get())) return error;
  Module* module = nullptr;
  if (CUresult error = load_module(context, parsed, nullptr, &module)) return error;
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}

bool read_file(const char* path, std::string* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  return true;
}

CUresult find_module(CUmodule handle, Module** module) {
  if (CUresult error = enter_without_context()) return error;
  *module = as<Module>(handle, Magic::module);
  return *module && !(*module)->gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult find_library(CUlibrary handle, Library** library) {
  if (CUresult error = enter_without_context()) return error;
  *library = as<Library>(handle, Magic::library);
  return *library && !(*library)->gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// A library loads into a context when something of it is first needed there.
CUresult module_in(Library* library, Context* context, Module** out) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    auto found = library->modules.find(context);
    if (found != library->modules.end()) {
      *out = found->second;
      return CUDA_SUCCESS;
    }
  }
  if (CUresult error = load_module(context, library->image, library, out)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  auto [entry, mine] = library->modules.emplace(context, *out);
  if (!mine) *out = entry->second;  // another thread was first
  return CUDA_SUCCESS;
}

CUresult load_library(CUlibrary* out, const void* image, size_t size) {
  if (CUresult error = enter_without_context()) return error;
  auto* library = new Library;
  library->image = std::make_shared<ParsedImage>();
  if (CUresult error = parse_image(image, size, library->image.get())) return error;
  for (const KernelImage& image_of : library->image->kernels) {
    auto kernel = std::make_unique<Kernel>();
    kernel->library = library;
    kernel->image = &image_of;
    library->kernels[image_of.name] = std::move(kernel);
  }
  *out = reinterpret_cast<CUlibrary>(library);
  return CUDA_SUCCESS;
}

CUresult global_of(Module* module, CUdeviceptr* address, size_t* bytes, const char* name) {
  auto found = module->globals.find(name ? name : "");
  if (found == module->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = found->second.address;
  if (bytes) *bytes = found->second.size;
  return CUDA_SUCCESS;
}

CUresult parameter(const KernelImage* image, size_t index, size_t* offset, size_t* size) {
  if (index >= image->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  if (offset) *offset = image->parameters[index].offset;
  if (size) *size = image->parameters[index].size;
  return CUDA_SUCCESS;
}

}  // namespace

Function* function_of(CUfunction handle, Context* context) {
  if (auto* function = as<Function>(handle, Magic::function))
    return function->module->gone ? nullptr : function;
  auto* kernel = as<Kernel>(handle, Magic::kernel);
  if (!kernel || kernel->library->gone) return nullptr;
  Module* module = nullptr;
  if (module_in(kernel->library, context, &module)) return nullptr;
  return module->functions[kernel->image->name].get();
}

}  // namespace rig

using namespace rig;

RIG_API cuModuleLoadData(CUmodule* out, const void* image) {
  return load(out, image, 0);
}
RIG_API cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return load(out, image, 0);
}
RIG_API cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return load(out, image, 0);
}
RIG_API cuModuleLoad(CUmodule* out, const char* path) {
  std::string bytes;
  if (!path || !read_file(path, &bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return load(out, bytes.c_str(), bytes.size());
}
RIG_API cuModuleUnload(CUmodule handle) {
  Module* module = nullptr;
  if (CUresult error = find_module(handle, &module)) return error;
  drain(module->context);
  unload_module(module);
  return CUDA_SUCCESS;
}
RIG_API cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
RIG_API cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  Module* module = nullptr;
  if (CUresult error = find_module(handle, &module)) return error;
  auto found = module->functions.find(name ? name : "");
  if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *out = reinterpret_cast<CUfunction>(found->second.get());
  return CUDA_SUCCESS;
}
RIG_API cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  Module* module = nullptr;
  if (CUresult error = find_module(handle, &module)) return error;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}
RIG_API cuModuleEnumerateFunctions(CUfunction* out, unsigned count, CUmodule handle) {
  Module* module = nullptr;
  if (CUresult error = find_module(handle, &module)) return error;
  for (auto& [name, function] : module->functions) {
    if (!count--) break;
    *out++ = reinterpret_cast<CUfunction>(function.get());
  }
  return CUDA_SUCCESS;
}
RIG_API cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  Module* module = nullptr;
  if (CUresult error = find_module(handle, &module)) return error;
  return global_of(module, address, bytes, name);
}

RIG_API cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned,
                          CUlibraryOption*, void**, unsigned) {
  return load_library(out, image, 0);
}
RIG_API cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned,
                              CUlibraryOption*, void**, unsigned) {
  std::string bytes;
  if (!path || !read_file(path, &bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return load_library(out, bytes.c_str(), bytes.size());
}
RIG_API cuLibraryUnload(CUlibrary handle) {
  Library* library = nullptr;
  if (CUresult error = find_library(handle, &library)) return error;
  auto modules = library->modules;
  for (auto& [context, module] : modules) {
    drain(context);
    unload_module(module);
  }
  library->gone = true;
  return CUDA_SUCCESS;
}
RIG_API cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  Library* library = nullptr;
  if (CUresult error = find_library(handle, &library)) return error;
  auto found = library->kernels.find(name ? name : "");
  if (found == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *out = reinterpret_cast<CUkernel>(found->second.get());
  return CUDA_SUCCESS;
}
RIG_API cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
  Library* library = nullptr;
  if (CUresult error = find_library(handle, &library)) return error;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}
RIG_API cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary handle) {
  Library* library = nullptr;
  if (CUresult error = find_library(handle, &library)) return error;
  for (auto& [name, kernel] : library->kernels) {
    if (!count--) break;
    *out++ = reinterpret_cast<CUkernel>(kernel.get());
  }
  return CUDA_SUCCESS;
}
RIG_API cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  Library* library = nullptr;
  Context* context = nullptr;
  if (CUresult error = find_library(handle, &library)) return error;
  if (CUresult error = enter(&context)) return error;
  Module* module = nullptr;
  if (CUresult error = module_in(library, context, &module)) return error;
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}
RIG_API cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
  CUmodule module = nullptr;
  if (CUresult error = cuLibraryGetModule(&module, handle)) return error;
  return global_of(reinterpret_cast<Module*>(module), address, bytes, name);
}
RIG_API cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
  Library* library = nullptr;
  if (CUresult error = find_library(handle, &library)) return error;
  for (const Variable& variable : library->image->variables)
    if (variable.name == name && variable.managed) return cuLibraryGetGlobal(address, bytes, handle, name);
  return CUDA_ERROR_NOT_FOUND;
}

RIG_API cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!as<Kernel>(handle, Magic::kernel)) return CUDA_ERROR_INVALID_HANDLE;
  Function* function = function_of(reinterpret_cast<CUfunction>(handle), context);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(function);
  return CUDA_SUCCESS;
}
RIG_API cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  auto* kernel = as<Kernel>(handle, Magic::kernel);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUlibrary>(kernel->library);
  return CUDA_SUCCESS;
}
RIG_API cuKernelGetName(const char** name, CUkernel handle) {
  auto* kernel = as<Kernel>(handle, Magic::kernel);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->image->name.c_str();
  return CUDA_SUCCESS;
}
RIG_API cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  auto* kernel = as<Kernel>(handle, Magic::kernel);
  return kernel ? parameter(kernel->image, index, offset, size) : CUDA_ERROR_INVALID_HANDLE;
}
RIG_API cuFuncGetName(const char** name, CUfunction handle) {
  auto* function = as<Function>(handle, Magic::function);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->image->name.c_str();
  return CUDA_SUCCESS;
}
RIG_API cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  auto* function = as<Function>(handle, Magic::function);
  return function ? parameter(function->image, index, offset, size) : CUDA_ERROR_INVALID_HANDLE;
}
RIG_API cuFuncGetModule(CUmodule* out, CUfunction handle) {
  auto* function = as<Function>(handle, Magic::function);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}
RIG_API cuFuncIsLoaded(CUfunctionLoadingState* loaded, CUfunction) {
  *loaded = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
RIG_API cuFuncLoad(CUfunction) {
  return CUDA_SUCCESS;
}
