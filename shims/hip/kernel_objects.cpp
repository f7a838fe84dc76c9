#include "hip/kernel_objects.h"

#include <cxxabi.h>
#include <string.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/handle_table.h"
#include "hip/agents.h"
#include "hip/elf_symbols.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

constexpr char kernel_suffix[] = ".kd";

struct Variable {
  std::string name;
  uint64_t address = 0, size = 0;
};

struct Loaded {
  Agent agent{};
  Image* image = nullptr;
};

// A frozen executable's part on one agent, or for one image of several.
struct HipModule : Module {
  std::vector<Variable> variables;
};

struct HipExecutable {
  std::vector<Loaded> loaded;
  std::vector<HipModule*> modules;
};

// Never destroyed: kernels are launched until the process ends.
struct Code {
  std::mutex mutex;
  HandleTable kernels;
  std::map<uint64_t, Image*> readers;
  std::map<uint64_t, HipExecutable> executables;
};

Code& code() noexcept {
  static auto* instance = new Code;
  return *instance;
}

const void* key_of(uint64_t kernel_object) noexcept {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(kernel_object));
}

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

bool starts_with(const std::string& text, const char* start) {
  return text.compare(0, strlen(start), start) == 0;
}

// HIP's copies and fills, made as kernels: the target launched none of them.
bool is_runtimes_own(const std::string& name) {
  return starts_with(name, "__amd_rocclr_");
}

// What the compiler leaves for itself.
bool is_no_variable(const std::string& name) {
  return starts_with(name, "__hip_cuid_");
}

bool holds_name(const Image& image, const std::string& name) {
  return image.data != nullptr && memmem(image.data, image.size, name.c_str(), name.size() + 1) != nullptr;
}

// Collects an agent's symbols of one executable.
class Symbols {
 public:
  Symbols(const Hsa& real, Agent agent, HipExecutable& executable)
      : real_(real), agent_(agent), executable_(executable) {}

  bool run(Executable handle) {
    return real_.hsa_executable_iterate_agent_symbols(handle, agent_, each, this) == constant::success;
  }

  std::vector<std::pair<uint64_t, HipKernel*>> kernels;

 private:
  static Status each(Executable, Agent, Symbol symbol, void* data) {
    try {
      static_cast<Symbols*>(data)->add(symbol);
    } catch (const std::bad_alloc&) {
      // Memory is short: launches of it are not seen.
    }
    return constant::success;
  }

  template <typename T>
  T ask(Symbol symbol, int which) {
    T value{};
    real_.hsa_executable_symbol_get_info(symbol, which, &value);
    return value;
  }

  void add(Symbol symbol) {
    std::string name(ask<uint32_t>(symbol, constant::symbol_name_length), '\0');
    real_.hsa_executable_symbol_get_info(symbol, constant::symbol_name, name.data());
    int type = ask<int>(symbol, constant::symbol_type);
    if (type == constant::symbol_is_kernel) add_kernel(symbol, name);
    if (type == constant::symbol_is_variable && !is_no_variable(name)) add_variable(symbol, name);
  }

  void add_kernel(Symbol symbol, std::string name) {
    constexpr size_t suffix = sizeof kernel_suffix - 1;
    if (name.size() > suffix && name.compare(name.size() - suffix, suffix, kernel_suffix) == 0)
      name.resize(name.size() - suffix);
    if (is_runtimes_own(name)) return;
    auto object = ask<uint64_t>(symbol, constant::symbol_kernel_object);
    auto* kernel = new HipKernel;
    kernel->handle = const_cast<void*>(key_of(object));
    kernel->name = name;
    kernel->demangled = demangle(name);
    kernel->module = module_with(name);
    kernel->parameter_bytes = ask<uint32_t>(symbol, constant::symbol_kernarg_size);
    kernel->static_group_bytes = ask<uint32_t>(symbol, constant::symbol_group_size);
    kernels.emplace_back(object, kernel);
  }

  void add_variable(Symbol symbol, const std::string& name) {
    Variable variable;
    variable.name = name;
    variable.address = ask<uint64_t>(symbol, constant::symbol_variable_address);
    variable.size = ask<uint32_t>(symbol, constant::symbol_variable_size);
    if (variable.size != 0 && variable.address != 0) module_with(name)->variables.push_back(variable);
  }

  // One module for each image that this executable has on the agent; mostly there is one.
  HipModule* module_with(const std::string& name) {
    Image* image = nullptr;
    for (const Loaded& loaded : executable_.loaded) {
      if (loaded.agent.handle != agent_.handle || loaded.image == nullptr) continue;
      if (image == nullptr || holds_name(*loaded.image, name)) image = loaded.image;
    }
    int ordinal = ordinal_of(agent_);
    for (HipModule* module : executable_.modules)
      if (module->device == ordinal && module->image == image) return module;
    auto* module = new HipModule;
    module->device = ordinal;
    module->image = image;
    executable_.modules.push_back(module);
    return module;
  }

  const Hsa& real_;
  Agent agent_;
  HipExecutable& executable_;
};

Allocation as_allocation(const HipModule& module, const Variable& variable) {
  Allocation allocation;
  allocation.base = variable.address;
  allocation.size = variable.size;
  allocation.kind = RegionKind::global;
  allocation.device = module.device;
  allocation.how = "a variable";
  allocation.name = variable.name;
  allocation.module = &module;
  return allocation;
}

}  // namespace

HipKernel* kernel_of(uint64_t kernel_object) noexcept {
  return static_cast<HipKernel*>(code().kernels.find(key_of(kernel_object)));
}

std::vector<Allocation> variables_of(const Module& module, const std::vector<std::string>& names) {
  std::vector<Allocation> found;
  const auto& own = static_cast<const HipModule&>(module);
  for (const Variable& variable : own.variables)
    for (const std::string& name : names)
      if (name == variable.name) found.push_back(as_allocation(own, variable));
  return found;
}

bool load_delta_of(const Kernel& kernel, uint64_t* delta) noexcept try {
  const Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  uint64_t in_file = 0;
  if (image == nullptr || !find_symbol(image->data, image->size, kernel.name + kernel_suffix, &in_file))
    return false;
  *delta = reinterpret_cast<uint64_t>(kernel.handle) - in_file;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void note_reader(Reader reader, Image* image) noexcept try {
  std::lock_guard<std::mutex> lock(code().mutex);
  code().readers[reader.handle] = image;
} catch (const std::bad_alloc&) {
  // Its kernels are captured without an image.
}

void forget_reader(Reader reader) noexcept {
  std::lock_guard<std::mutex> lock(code().mutex);
  code().readers.erase(reader.handle);
}

void note_loaded(Executable executable, Agent agent, Reader reader) noexcept try {
  std::lock_guard<std::mutex> lock(code().mutex);
  auto known = code().readers.find(reader.handle);
  code().executables[executable.handle].loaded.push_back(
      {agent, known == code().readers.end() ? nullptr : known->second});
} catch (const std::bad_alloc&) {
  // Its kernels are captured without an image.
}

void note_executable(Executable handle) noexcept try {
  const Hsa* real = hsa();
  const Agents* all = agents();
  if (real == nullptr || all == nullptr) return;
  HipExecutable executable;
  {
    std::lock_guard<std::mutex> lock(code().mutex);
    executable = code().executables[handle.handle];
  }
  // The runtime is asked with no lock of ours held.
  gate::Own own;
  std::vector<std::pair<uint64_t, HipKernel*>> kernels;
  for (const Gpu& gpu : all->gpus) {
    Symbols symbols(*real, gpu.agent, executable);
    symbols.run(handle);
    kernels.insert(kernels.end(), symbols.kernels.begin(), symbols.kernels.end());
  }
  for (const HipModule* module : executable.modules)
    for (const Variable& variable : module->variables)
      MemoryMap::instance().add(as_allocation(*module, variable));
  std::lock_guard<std::mutex> lock(code().mutex);
  for (const auto& entry : kernels) code().kernels.put(key_of(entry.first), entry.second);
  code().executables[handle.handle] = std::move(executable);
} catch (const std::bad_alloc&) {
  // Memory is short: launches out of it are not seen.
}

void forget_executable(Executable handle) noexcept {
  std::vector<HipModule*> modules;
  {
    std::lock_guard<std::mutex> lock(code().mutex);
    auto found = code().executables.find(handle.handle);
    if (found == code().executables.end()) return;
    modules.swap(found->second.modules);
    code().executables.erase(found);
    for (HipModule* module : modules) {
      module->gone.store(true, std::memory_order_release);
      code().kernels.remove_if([&](const void*, const Kernel& kernel) { return kernel.module == module; });
    }
  }
  for (const HipModule* module : modules) MemoryMap::instance().remove_module(module);
}

void forget_code() noexcept {
  Code& all = code();
  all.kernels.remove_if([](const void*, const Kernel&) { return true; });
  for (auto& entry : all.executables)
    for (HipModule* module : entry.second.modules) module->gone.store(true, std::memory_order_release);
  all.executables.clear();
  all.readers.clear();
}

void lock_code() noexcept {
  code().mutex.lock();
}
void unlock_code() noexcept {
  code().mutex.unlock();
}

}  // namespace kerncap::hip
