// How the HSA runtime lets this library in: it is named in HSA_TOOLS_LIB, or preloaded, and found there by
// the symbol HSA_AMD_TOOL_PRIORITY. If both hold, the runtime calls OnLoad once or twice.
//
// A runtime that is built with rocprofiler-register (AMD's own, torch's) first passes its tables to that
// library, and if a tool is registered there, it looks for no other. Preloaded, our definition of the
// function is the one that it calls: it passes the tables on, and takes them when the other tool has had
// them. This library has no rocprofiler_configure: that symbol in a process without rocprofiler-sdk makes
// rocprofiler-register abort it.
#include "common/glibc_floor.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "common/capture.h"
#include "common/memory_map.h"
#include "hip/agents.h"
#include "hip/copies.h"
#include "hip/device.h"
#include "hip/faults.h"
#include "hip/fork.h"
#include "hip/kernel_objects.h"
#include "hip/queues.h"
#include "hip/tables.h"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace kerncap::hip {
namespace {

constexpr int registered = 0, no_tools = 1;  // of rocprofiler_register_error_code_t

// hsa_init less hsa_shut_down, in a runtime that calls no OnUnload of ours; 0 in any other.
std::atomic<int> users{0};
std::atomic<bool> was_called{false};

// A runtime that starts anew in this process knows nothing of what an earlier one made.
void start_afresh() noexcept {
  forget_agents();
  forget_code();
  forget_queues();
  forget_faults();
  copies::reset();
  hip_device().forget();
  MemoryMap::reset_after_fork();
}

void refuse(const std::string& versions) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  capture::refuse_all("this HSA runtime has tables of a version that this kerncap does not know (" +
                      versions + "): nothing of it is watched");
}

// True: the tables are ours now, and were not before.
bool load(ApiTable* tables) noexcept try {
  was_called.store(true);
  if (tables == nullptr || !capture::armed()) return false;
  std::string versions;
  Adoption adoption = adopt(tables, &versions);
  if (adoption == Adoption::refused) refuse(versions);
  if (adoption != Adoption::adopted) return false;
  start_afresh();
  watch_fork();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// The runtime says on the target's stderr what was left.
void leave() noexcept {
  if (hsa() == nullptr) return;
  hip_device().dispose();
  dispose_signals();
  let_go();
}

using Register = decltype(&::rocprofiler_register_library_api_table);

// The function that `caller` would have called: the one in a library that its own needs. RTLD_NEXT sees only
// what the program was started with.
Register next_register(const void* caller) noexcept {
  static const char name[] = "rocprofiler_register_library_api_table";
  Dl_info its{};
  void* found = nullptr;
  if (::dladdr(caller, &its) != 0 && its.dli_fname != nullptr) {
    void* library = ::dlopen(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) {
      found = ::dlsym(library, name);
      ::dlclose(library);
    }
  }
  auto* ours = reinterpret_cast<void*>(&::rocprofiler_register_library_api_table);
  if (found == nullptr || found == ours) found = ::dlsym(RTLD_NEXT, name);
  return found == ours ? nullptr : reinterpret_cast<Register>(found);
}

// Preloaded, and never called though the process has a ROCr: said in the session, once it ends.
__attribute__((destructor)) void say_uncalled() {
  if (was_called.load()) return;
  auto is_rocr = [](dl_phdr_info* info, size_t, void*) {
    return info->dlpi_name != nullptr && std::strstr(info->dlpi_name, "/libhsa-runtime64") != nullptr ? 1 : 0;
  };
  if (::dl_iterate_phdr(is_rocr, nullptr) != 0) capture::leave_mark("uncalled");
}

}  // namespace

Status wrap::hsa_init() noexcept {
  Status status = real().hsa_init();
  if (status == constant::success && users.load() > 0) users.fetch_add(1);
  return status;
}

Status wrap::hsa_shut_down() noexcept {
  if (users.load() > 0 && users.fetch_sub(1) == 1) leave();
  // ROCr 7 frees the memory of all signals, and then uses one of a queue that it destroys with its agent.
  return has_cooperative_queues() ? constant::success : real().hsa_shut_down();
}

}  // namespace kerncap::hip

// The higher, the later: who comes last stands before all others, and sees what the target calls.
extern "C" {
// `extern`: a constant with a name that others see, there before any code of ours runs.
__attribute__((visibility("default"))) extern const uint32_t HSA_AMD_TOOL_PRIORITY = 2000;
}

KERNCAP_EXPORT bool OnLoad(kerncap::hip::ApiTable* tables, uint64_t, uint64_t, const char* const*) {
  kerncap::hip::load(tables);
  return true;
}

KERNCAP_EXPORT void OnUnload() {
  kerncap::hip::leave();
}

int rocprofiler_register_library_api_table(const char* library, uint32_t (*import)(), uint32_t version,
                                           void** tables, uint64_t count, uint64_t* id) {
  using namespace kerncap::hip;
  Register next = next_register(__builtin_return_address(0));
  if (next == nullptr) return no_tools;
  bool is_hsa = library != nullptr && std::strcmp(library, "hsa") == 0 && tables != nullptr && count > 0;
  auto* hsa_tables = is_hsa ? static_cast<ApiTable*>(tables[0]) : nullptr;
  QueueMaker before = queue_maker(hsa_tables);
  int status = next(library, import, version, tables, count, id);
  if (hsa_tables != nullptr && status == registered && load(hsa_tables)) {
    users.store(1);
    share_queues(queue_maker(hsa_tables) != before);
    kerncap::capture::leave_mark("rocprofiler");
  }
  return status;
}
