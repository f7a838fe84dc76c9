// Wrapped functions of libraries of which a process may have several: CUDA 12's libnvrtc beside
// CUDA 13's. Each library has a slot, and each slot wrappers of its own, so that a call never crosses
// from one to the other. Each shim has a list of them, which its build names KERNCAP_FOREIGN_DEF.
#ifndef KERNCAP_COMMON_FOREIGN_H
#define KERNCAP_COMMON_FOREIGN_H

#include <cstddef>
#include <cstdint>

namespace kerncap {

struct ForeignLibrary {
  uintptr_t base = 0;
#define KERNCAP_FOREIGN(symbol, library, parameters, arguments) int(*symbol) parameters = nullptr;
#include KERNCAP_FOREIGN_DEF
};

// The wrappers: each calls `next.symbol` once, unless that is null.
struct ForeignWrap {
  const ForeignLibrary& next;
#define KERNCAP_FOREIGN(symbol, library, parameters, arguments) int symbol parameters const noexcept;
#include KERNCAP_FOREIGN_DEF
};

bool is_foreign_name(const char* name) noexcept;
// The address of the wrapper for a function of another library, or of libdl, that this lookup gave; `real`
// if it has no wrapper.
void* wrapper_for_foreign(const char* name, void* real) noexcept;
// Whether this address is the exported wrapper of `name`.
bool is_foreign_export(const char* name, const void* address) noexcept;
// Whether the library that the caller would get `name` from is loaded.
bool foreign_is_loaded(const char* name, const void* caller) noexcept;

}  // namespace kerncap

#endif  // KERNCAP_COMMON_FOREIGN_H
