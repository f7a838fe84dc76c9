// The objects that the dynamic linker has loaded, read from their own headers: symbols are found
// without dlsym (which the shim replaces), and without touching dlerror or the linker's locks for longer
// than one walk.
#ifndef KERNCAP_COMMON_LOADED_H
#define KERNCAP_COMMON_LOADED_H

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace kerncap::loaded {

// One object. Valid while it stays loaded.
struct Object {
  uintptr_t base = 0;
  const char* path = "";  // empty for the main program
  const ElfW(Phdr) * headers = nullptr;
  size_t header_count = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  size_t position = 0;  // in load order, which is the search order of what came at the start

  bool holds(const void* address) const noexcept;
  // The function that this object itself defines; null for none, for data, and for an ifunc.
  void* function(const char* name) const noexcept;
  // Whether its DT_SONAME, or else its file's name, begins with `prefix` ("libcuda.so").
  bool is_library(const char* prefix) const noexcept;
};

// Calls `visit` for each object in load order until it returns true; whether one did.
bool any(bool (*visit)(const Object& object, void* context), void* context) noexcept;

template <typename Visit>
bool any(Visit&& visit) noexcept {
  return any([](const Object& object, void* context) { return (*static_cast<Visit*>(context))(object); },
             const_cast<void*>(static_cast<const void*>(&visit)));
}

// The object whose segments hold `address`.
bool object_of(const void* address, Object* found) noexcept;
// This library itself.
const Object& self() noexcept;
// Grows when an object is loaded.
unsigned long long generation() noexcept;

// The string's own comparison: a sanitizer's interceptors may not be ready when the first dlsym comes.
bool same_text(const char* a, const char* b) noexcept;

}  // namespace kerncap::loaded

#endif  // KERNCAP_COMMON_LOADED_H
