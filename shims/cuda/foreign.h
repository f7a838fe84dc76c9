// Wrapped functions of libraries of which a process may have several: CUDA 12's libnvrtc beside
// CUDA 13's. Each library has a slot, and each slot wrappers of its own, so that a call never crosses
// from one to the other.
#ifndef KERNCAP_CUDA_FOREIGN_H
#define KERNCAP_CUDA_FOREIGN_H

#include <cstddef>
#include <cstdint>

namespace kerncap::cuda {

struct ForeignLibrary {
  uintptr_t base = 0;
#define KERNCAP_FOREIGN(symbol, library, parameters, arguments) int(*symbol) parameters = nullptr;
#include "cuda/foreign.def"
};

// The wrappers: each calls `next.symbol` once, unless that is null.
struct ForeignWrap {
  const ForeignLibrary& next;
#define KERNCAP_FOREIGN(symbol, library, parameters, arguments) int symbol parameters const noexcept;
#include "cuda/foreign.def"
};

// Whether this address is the exported wrapper of `name`.
bool is_foreign_export(const char* name, const void* address) noexcept;
// Whether the library that the caller would get `name` from is loaded.
bool foreign_is_loaded(const char* name, const void* caller) noexcept;

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_FOREIGN_H
