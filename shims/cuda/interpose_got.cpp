// The second route, for what the preload can't reach: libraries that were loaded with RTLD_DEEPBIND (they
// bind to the driver past us), and programs whose LD_PRELOAD was taken away. There libcuda itself loads
// us at cuInit, by CUDA_INJECTION64_PATH, and the import tables of what is loaded are pointed at us.
//
// It does not reach pointers that were already fetched and kept: a runtime that asked cuGetProcAddress
// before cuInit was called (statically linked runtimes do so) holds the driver's own.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "common/glibc_floor.h"
#include "common/libdl.h"
#include "common/loaded.h"
#include "cuda/interpose.h"

namespace kerncap::cuda {
namespace {

#if defined(__x86_64__)
constexpr uint32_t jump_slot = R_X86_64_JUMP_SLOT, data_slot = R_X86_64_GLOB_DAT, pointer = R_X86_64_64;
#else
constexpr uint32_t jump_slot = R_AARCH64_JUMP_SLOT, data_slot = R_AARCH64_GLOB_DAT, pointer = R_AARCH64_ABS64;
#endif

struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * relocations[2] = {};
  size_t counts[2] = {};
};

Imports imports_of(const loaded::Object& object) noexcept {
  Imports found;
  size_t bytes[2] = {}, relative = 0;
  for (const ElfW(Dyn)* entry = object.dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    uintptr_t value = entry->d_un.d_ptr;
    uintptr_t address = value < object.base ? object.base + value : value;
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) found.strings = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_JMPREL) found.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) bytes[0] = value;
    if (entry->d_tag == DT_RELA) found.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_RELASZ) bytes[1] = value;
    if (entry->d_tag == DT_RELACOUNT) relative = value;
  }
  for (size_t i = 0; i < 2; ++i)
    found.counts[i] = found.relocations[i] == nullptr ? 0 : bytes[i] / sizeof(ElfW(Rela));
  // Those without a symbol come first, and in a big library are millions.
  relative = std::min(relative, found.counts[1]);
  found.relocations[1] += relative;
  found.counts[1] -= relative;
  return found;
}

bool is_relro(const loaded::Object& object, uintptr_t address) noexcept {
  for (size_t i = 0; i < object.header_count; ++i) {
    if (object.headers[i].p_type != PT_GNU_RELRO) continue;
    uintptr_t begin = object.base + object.headers[i].p_vaddr;
    if (address >= begin && address < begin + object.headers[i].p_memsz) return true;
  }
  return false;
}

void write_slot(const loaded::Object& object, void** slot, void* function) noexcept {
  auto address = reinterpret_cast<uintptr_t>(slot);
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(address & ~(page - 1));
  bool sealed = is_relro(object, address);
  if (sealed && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(slot, function, __ATOMIC_RELEASE);
  if (sealed) mprotect(start, page, PROT_READ);
}

// What this slot is to hold; null to leave it. An entry that is not bound yet points into its own object.
void* replacement(const loaded::Object& object, const char* name, void* current) noexcept {
  void* wrapper = nullptr;
  if (name[0] == 'd') {
    loaded::Object holder;
    wrapper = libdl_wrapper(name);
    if (wrapper == nullptr || !loaded::object_of(current, &holder)) return nullptr;
    if (!is_libdl(holder) && holder.base != object.base) return nullptr;
  } else if (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') {
    size_t hook = find_hook(name);
    if (hook == hook_count() || own_symbol_of(hook) == nullptr) return nullptr;
    wrapper = hook_at(hook).wrapper;
    if (current != own_symbol_of(hook) && !object.holds(current)) return nullptr;
  }
  return wrapper == current ? nullptr : wrapper;
}

bool is_left_alone(const loaded::Object& object) noexcept {
  return object.base == loaded::self().base || object.is_library("libcuda.so") ||
         object.is_library("libc.so") || object.is_library("libdl.so") || object.is_library("ld-linux") ||
         object.is_library("linux-vdso");
}

void patch(const loaded::Object& object) noexcept {
  if (is_left_alone(object)) return;
  Imports imports = imports_of(object);
  if (imports.symbols == nullptr || imports.strings == nullptr) return;
  // An interposer of its own: what it imports under this name is meant to come after it.
  const bool wraps_dlsym = object.function("dlsym") != nullptr;
  for (size_t list = 0; list < 2; ++list) {
    for (size_t i = 0; i < imports.counts[list]; ++i) {
      const ElfW(Rela) & relocation = imports.relocations[list][i];
      uint32_t type = ELF64_R_TYPE(relocation.r_info);
      if (type != jump_slot && type != data_slot) continue;
      const char* name = imports.strings + imports.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
      if ((name[0] != 'c' || name[1] != 'u') && (name[0] != 'd' || name[1] != 'l')) continue;
      if ((wraps_dlsym && name[0] == 'd') || object.function(name) != nullptr) continue;
      auto** slot = reinterpret_cast<void**>(object.base + relocation.r_offset);
      void* wrapper = replacement(object, name, *slot);
      if (wrapper != nullptr) write_slot(object, slot, wrapper);
    }
  }
}

}  // namespace

void redirect_imports(const loaded::Object& object, void* (*replacement)(const char* name)) noexcept {
  Imports imports = imports_of(object);
  if (imports.symbols == nullptr || imports.strings == nullptr) return;
  for (size_t list = 0; list < 2; ++list) {
    for (size_t i = 0; i < imports.counts[list]; ++i) {
      const ElfW(Rela) & relocation = imports.relocations[list][i];
      uint32_t type = ELF64_R_TYPE(relocation.r_info);
      if (type != jump_slot && type != data_slot && (type != pointer || relocation.r_addend != 0)) continue;
      const ElfW(Sym) & symbol = imports.symbols[ELF64_R_SYM(relocation.r_info)];
      if (symbol.st_shndx != SHN_UNDEF) continue;
      void* function = replacement(imports.strings + symbol.st_name);
      if (function != nullptr)
        write_slot(object, reinterpret_cast<void**>(object.base + relocation.r_offset), function);
    }
  }
}

void patch_import_tables() noexcept {
  static std::atomic<unsigned long long> seen{0};
  unsigned long long now = loaded::generation();
  if (seen.exchange(now, std::memory_order_acq_rel) == now) return;
  if (next_of(0) == nullptr) {  // the driver is not there yet: come again
    seen.store(0, std::memory_order_release);
    return;
  }
  static std::mutex mutex;
  static auto* patched = new std::set<std::pair<uintptr_t, const void*>>;
  std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {  // somebody is at it, or was when this process was forked
    seen.store(0, std::memory_order_release);
    return;
  }
  loaded::any([](const loaded::Object& object) {
    if (patched->emplace(object.base, object.dynamic).second) patch(object);
    return false;
  });
}

}  // namespace kerncap::cuda

// Source: the driver's injection contract: called once, at cuInit, in the library that
// CUDA_INJECTION64_PATH names.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (kerncap::capturing_process()) kerncap::cuda::patch_import_tables();
  return 1;
}
