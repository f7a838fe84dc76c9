// The exported functions: one for each row of hooks.def, under the driver's own name, so that ELF
// binding finds them; every other route hands out these same addresses.
//
// Rules here: nothing throws, nothing prints, nothing is allocated on the way of a call that is not
// watched, and `driver()` is asked for the next function anew, never dlsym.
#include "cuda/interpose.h"

#include <dlfcn.h>

#include "common/capture.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/libdl.h"
#include "common/loaded.h"
#include "cuda/driver.h"
#include "cuda/registry.h"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

KERNCAP_READ_BY_EACH_CALL std::atomic<bool> kerncap::cuda::is_under_capture{false};

bool kerncap::capturing_process() noexcept {
  static const bool capturing = [] {
    bool armed = capture::armed();
    if (armed) cuda::watch_fork();
    return armed;
  }();
  if (capturing) cuda::is_under_capture.store(true, std::memory_order_release);
  return capturing;
}

// cuda.h declares these: a row of hooks.def that disagrees with it does not compile.
#define KERNCAP_HOOK(symbol, result, parameters, arguments)              \
  KERNCAP_EXPORT result CUDAAPI symbol parameters {                      \
    const kerncap::cuda::Driver* kerncap_next = kerncap::cuda::driver(); \
    if (kerncap_next == nullptr || kerncap_next->symbol == nullptr)      \
      return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;                  \
    kerncap::cuda::Entry kerncap_entry;                                  \
    if (!kerncap_entry.watched()) return kerncap_next->symbol arguments; \
    return kerncap::cuda::wrap::symbol arguments;                        \
  }
#include "cuda/hooks.def"

namespace kerncap::cuda {
namespace {

// Constant: it is read by lookups that other libraries' constructors make before ours have run.
const Hook table[] = {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) \
  {#symbol, reinterpret_cast<void*>(&::symbol), offsetof(Driver, symbol)},
#include "cuda/hooks.def"
};
constexpr size_t count = sizeof(table) / sizeof(table[0]);

enum : size_t {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) index_##symbol,
#include "cuda/hooks.def"
  index_end
};

struct Versioned {
  size_t hook;
  const char* base;
  int version;
};

constexpr Versioned versions[] = {
#define KERNCAP_VERSION(symbol, base, version) {index_##symbol, #base, version},
#include "cuda/versions.def"
};
static_assert(sizeof(versions) / sizeof(versions[0]) == index_end, "a row of versions.def for each hook");

constexpr bool per_thread(const char* name) noexcept {
  size_t length = 0;
  while (name[length] != 0) ++length;
  return length > 5 && name[length - 5] == '_' && name[length - 4] == 'p' && name[length - 3] == 't' &&
         (name[length - 2] == 's' || name[length - 2] == 'd') &&
         (name[length - 1] == 'z' || name[length - 1] == 's');
}

constexpr uint64_t wants_per_thread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

constexpr int known_version = 13050;  // of the cudaTypedefs.h that versions.def was made from

bool is_exported(void* function) noexcept {
  Dl_info info = {};
  return dladdr(function, &info) != 0 && info.dli_saddr == function;
}

bool stands_for(size_t hook, const void* real) noexcept {
  return real == table[hook].wrapper || real == next_of(hook) || real == own_symbol_of(hook);
}

}  // namespace

size_t hook_count() noexcept {
  return count;
}

const Hook& hook_at(size_t index) noexcept {
  return table[index];
}

size_t find_hook(const char* name) noexcept {
  size_t index = 0;
  while (index < count && !loaded::same_text(table[index].name, name)) ++index;
  return index;
}

void* wrapper_for_symbol(const char* name, void* real) noexcept {
  size_t hook = find_hook(name);
  return real != nullptr && hook < count && stands_for(hook, real) ? table[hook].wrapper : real;
}

void* wrapper_for_answer(const char* name, void* real, int version, uint64_t flags) noexcept {
  if (real == nullptr || name == nullptr) return real;
  const bool thread_stream = (flags & wants_per_thread) != 0;
  const Versioned* best = nullptr;
  for (const Versioned& row : versions) {
    if (!loaded::same_text(row.base, name)) continue;
    // Two spellings may be one function in the driver; the row of this very name is the one to take.
    if (stands_for(row.hook, real)) return table[row.hook].wrapper;
    if (row.version > version || next_of(row.hook) == nullptr) continue;
    bool row_thread = per_thread(table[row.hook].name);
    if (row_thread && !thread_stream) continue;
    bool better =
        best == nullptr || row.version > best->version || (row.version == best->version && row_thread);
    if (best != nullptr && per_thread(table[best->hook].name) != row_thread) better = row_thread;
    if (better) best = &row;
  }
  for (size_t hook = 0; hook < count; ++hook)
    if (stands_for(hook, real)) return table[hook].wrapper;
  // Not an address that the driver exports: the rows say which function this version of the name is.
  // What it does export is another function than those that we know, and so may be what is newer.
  if (best == nullptr || version > known_version || is_exported(real)) return real;
  return table[best->hook].wrapper;
}

}  // namespace kerncap::cuda
