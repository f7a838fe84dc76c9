// dlsym and dlvsym in front of glibc's.
//
// glibc takes RTLD_NEXT and RTLD_DEFAULT relative to who calls, by the return address. So the exported
// functions are thunks: they ask `kerncap_route` with the arguments still in their registers, and
// either return its answer or jump on to the next dlsym with the caller's frame as it was.
// No glibc_floor.h here: this file defines dlsym and dlvsym, and calls neither.
//
// The file and loaded.cpp are built with no sanitizer: what they do may come before one has started.
#include "common/libdl.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include "common/foreign.h"
#include "common/loaded.h"

extern "C" {

// The thunks under names that no other library has.
__attribute__((visibility("hidden"))) extern char kerncap_dlsym;
__attribute__((visibility("hidden"))) extern char kerncap_dlvsym;

// `version` is null for dlsym.
__attribute__((visibility("hidden"))) KerncapRoute kerncap_route(void* handle, const char* name,
                                                                 const char* version, void* caller);
}

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".macro KERNCAP_THUNK name, versioned\n"
    ".globl \\name\n"
    ".type \\name, @function\n"
    ".globl kerncap_\\name\n"
    ".hidden kerncap_\\name\n"
    ".balign 16\n"
    "\\name:\n"
    "kerncap_\\name:\n"
    ".cfi_startproc\n"
    "endbr64\n"
    "pushq %rdi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "pushq %rsi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "pushq %rdx\n"
    ".cfi_adjust_cfa_offset 8\n"
    "movq 24(%rsp), %rcx\n"
    ".if \\versioned == 0\n"
    "xorl %edx, %edx\n"
    ".endif\n"
    "call kerncap_route\n"
    "movq %rdx, %r11\n"
    "popq %rdx\n"
    ".cfi_adjust_cfa_offset -8\n"
    "popq %rsi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "popq %rdi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "testq %r11, %r11\n"
    "jz 1f\n"
    "jmpq *%r11\n"
    "1: retq\n"
    ".cfi_endproc\n"
    ".size \\name, . - \\name\n"
    ".endm\n"
    "KERNCAP_THUNK dlsym, 0\n"
    "KERNCAP_THUNK dlvsym, 1\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".macro KERNCAP_THUNK name, versioned\n"
    ".globl \\name\n"
    ".type \\name, %function\n"
    ".globl kerncap_\\name\n"
    ".hidden kerncap_\\name\n"
    ".balign 16\n"
    "\\name:\n"
    "kerncap_\\name:\n"
    ".cfi_startproc\n"
    "hint #34\n"  // bti c
    "stp x29, x30, [sp, #-48]!\n"
    ".cfi_adjust_cfa_offset 48\n"
    ".cfi_rel_offset x29, 0\n"
    ".cfi_rel_offset x30, 8\n"
    "stp x0, x1, [sp, #16]\n"
    "str x2, [sp, #32]\n"
    "mov x3, x30\n"
    ".if \\versioned == 0\n"
    "mov x2, xzr\n"
    ".endif\n"
    "bl kerncap_route\n"
    "mov x16, x1\n"
    "mov x9, x0\n"
    "ldp x0, x1, [sp, #16]\n"
    "ldr x2, [sp, #32]\n"
    "ldp x29, x30, [sp], #48\n"
    ".cfi_adjust_cfa_offset -48\n"
    ".cfi_restore x29\n"
    ".cfi_restore x30\n"
    "cbz x16, 1f\n"
    "br x16\n"
    "1: mov x0, x9\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size \\name, . - \\name\n"
    ".endm\n"
    "KERNCAP_THUNK dlsym, 0\n"
    "KERNCAP_THUNK dlvsym, 1\n");
#else
#error "dlsym's thunk is written for x86-64 and aarch64"
#endif

namespace kerncap {

bool is_libdl(const loaded::Object& object) noexcept {
  return object.is_library("libc.so") || object.is_library("libdl.so");
}

void* libdl_wrapper(const char* name) noexcept {
  if (loaded::same_text(name, "dlsym")) return &kerncap_dlsym;
  return loaded::same_text(name, "dlvsym") ? &kerncap_dlvsym : nullptr;
}

namespace {

// The linker's own list, in load order. Not dl_iterate_phdr: the first dlsym comes when sanitizers, which
// wrap that, have not started yet; and while the program starts nobody else changes the list.
struct Found {
  void* dlsym = nullptr;
  void* dlvsym = nullptr;
};

loaded::Object object_of_map(const link_map& map) noexcept {
  loaded::Object object;
  object.base = map.l_addr;
  object.path = map.l_name == nullptr ? "" : map.l_name;
  object.dynamic = map.l_ld;
  return object;
}

// The first definitions from `map` on; those of libdl or libc alone where `libc_only`.
Found definitions(const link_map* map, bool libc_only) noexcept {
  Found found;
  for (; map != nullptr && (found.dlsym == nullptr || found.dlvsym == nullptr); map = map->l_next) {
    loaded::Object object = object_of_map(*map);
    if (map->l_ld == nullptr || (libc_only && !is_libdl(object))) continue;
    if (found.dlsym == nullptr) found.dlsym = object.function("dlsym");
    if (found.dlvsym == nullptr) found.dlvsym = object.function("dlvsym");
  }
  return found;
}

// Written by whoever comes first, with the same values by all who come at once: no guard, which a
// sanitizer would watch.
std::atomic<void*> next_dlsym, next_dlvsym, libc_dlsym, libc_dlvsym;

void find_next() noexcept {
  const link_map* first = _r_debug.r_map;
  const link_map* own = first;
  // _DYNAMIC is this library's own dynamic section.
  while (own != nullptr && own->l_ld != _DYNAMIC) own = own->l_next;
  Found libc = definitions(first, true);
  // Only what lies between us and libc is next: what was loaded later is not searched before it.
  Found after = own == nullptr ? Found() : definitions(own->l_next, false);
  bool before_libc = own != nullptr && definitions(own->l_next, true).dlsym != nullptr;
  libc_dlvsym.store(libc.dlvsym);
  libc_dlsym.store(libc.dlsym);
  next_dlvsym.store(before_libc && after.dlvsym != nullptr ? after.dlvsym : libc.dlvsym);
  next_dlsym.store(before_libc && after.dlsym != nullptr ? after.dlsym : libc.dlsym);
}

enum class Named { nobody, own, libdl, foreign };

Named kind_of(const char* name) noexcept {
  if (name == nullptr) return Named::nobody;
  if (is_own_name(name)) return Named::own;
  if (loaded::same_text(name, "dlsym") || loaded::same_text(name, "dlvsym")) return Named::libdl;
  return is_foreign_name(name) ? Named::foreign : Named::nobody;
}

// Another preload that looks for the dlsym after its own: we are next. Asked with a version, as many do,
// the linker would pass over us, who have none. By the linker's list, as find_next: the object with the
// highest base not above the caller is the caller's.
bool comes_before_us(const void* caller) noexcept {
  auto address = reinterpret_cast<uintptr_t>(caller);
  const link_map* holder = nullptr;
  bool before = false, passed_us = false;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    passed_us |= map->l_ld == _DYNAMIC;
    if (map->l_addr > address || (holder != nullptr && map->l_addr < holder->l_addr)) continue;
    holder = map;
    before = !passed_us;
  }
  return before;
}

}  // namespace

// From here the linker searches relative to this library: for real handles, for the global scope, and for
// what comes after us. Not inlined and no tail call, so that the return address lies in this library.
__attribute__((noinline)) void* look_up(void* handle, const char* name, const char* version) noexcept {
  const NextLibdl next = next_libdl();
  // What comes after us only glibc's own can tell: another wrapper's call would be relative to that.
  bool after = handle == RTLD_NEXT;
  void* found = nullptr;
  if (version == nullptr)
    found = (after ? reinterpret_cast<decltype(next.dlsym)>(next.libc_dlsym) : next.dlsym)(handle, name);
  else
    found = (after ? reinterpret_cast<decltype(next.dlvsym)>(next.libc_dlvsym) : next.dlvsym)(handle, name,
                                                                                              version);
  __asm__ volatile("" : "+r"(found));
  return found;
}

bool caller_defines(const void* caller, const char* name) noexcept {
  loaded::Object object;
  return loaded::object_of(caller, &object) && object.function(name) != nullptr;
}

NextLibdl next_libdl() noexcept {
  if (next_dlsym.load(std::memory_order_acquire) == nullptr) find_next();
  NextLibdl next;
  next.dlsym = reinterpret_cast<decltype(next.dlsym)>(next_dlsym.load());
  next.dlvsym = reinterpret_cast<decltype(next.dlvsym)>(next_dlvsym.load());
  next.libc_dlsym = libc_dlsym.load();
  next.libc_dlvsym = libc_dlvsym.load();
  return next;
}

}  // namespace kerncap

KerncapRoute kerncap_route(void* handle, const char* name, const char* version, void* caller) {
  using namespace kerncap;
  const NextLibdl next = next_libdl();
  const KerncapRoute on = {nullptr, version == nullptr ? reinterpret_cast<void*>(next.dlsym)
                                                       : reinterpret_cast<void*>(next.dlvsym)};
  const Named kind = kind_of(name);
  if (kind == Named::nobody) return on;
  // Before the session is asked for: other preloads ask for dlsym when not even the environment is there.
  if (kind == Named::libdl && handle == RTLD_NEXT)
    return comes_before_us(caller) ? KerncapRoute{libdl_wrapper(name), nullptr} : on;
  if (!capturing_process()) return on;
  if (kind == Named::libdl || kind == Named::foreign) {
    if (handle == RTLD_NEXT || caller_defines(caller, name)) return on;
    void* found = look_up(handle, name, version);
    if (is_foreign_export(name, found))
      return {foreign_is_loaded(name, caller) ? found : look_up(RTLD_NEXT, name, version), nullptr};
    return {wrapper_for_foreign(name, found), nullptr};
  }
  return own_route(handle, name, version, caller, on);
}
