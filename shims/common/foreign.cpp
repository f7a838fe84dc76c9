#include "common/foreign.h"

#include <dlfcn.h>

#include <atomic>
#include <new>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/libdl.h"
#include "common/loaded.h"

namespace kerncap {
namespace {

constexpr size_t slots = 4;
std::atomic<const ForeignLibrary*> libraries[slots];

const ForeignLibrary* read(const loaded::Object& object) noexcept {
  auto* library = new (std::nothrow) ForeignLibrary;
  if (library == nullptr) return nullptr;
  library->base = object.base;
#define KERNCAP_FOREIGN(symbol, file, parameters, arguments) \
  library->symbol = reinterpret_cast<decltype(library->symbol)>(object.function(#symbol));
#include KERNCAP_FOREIGN_DEF
  return library;
}

// The slot of the library that `object` is; `slots` when all are taken.
size_t slot_of(const loaded::Object& object) noexcept {
  const ForeignLibrary* fresh = nullptr;
  for (size_t i = 0; i < slots; ++i) {
    const ForeignLibrary* known = libraries[i].load(std::memory_order_acquire);
    if (known == nullptr) {
      if (fresh == nullptr) fresh = read(object);
      if (fresh == nullptr) return slots;
      if (libraries[i].compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return i;
    }
    if (known->base == object.base) {
      delete fresh;
      return i;
    }
  }
  delete fresh;
  return slots;
}

template <size_t slot>
struct Slotted {
#define KERNCAP_FOREIGN(symbol, file, parameters, arguments)                                 \
  static int symbol parameters {                                                             \
    const ForeignLibrary& next = *libraries[slot].load(std::memory_order_acquire);           \
    return gate::Own::active() ? next.symbol arguments : ForeignWrap{next}.symbol arguments; \
  }
#include KERNCAP_FOREIGN_DEF
};

struct Row {
  const char* name;
  const char* libraries[2];  // one at least
  void* wrappers[slots];
};

const Row rows[] = {
#define KERNCAP_FOREIGN(symbol, file, parameters, arguments)                                    \
  {#symbol,                                                                                     \
   {file},                                                                                      \
   {reinterpret_cast<void*>(&Slotted<0>::symbol), reinterpret_cast<void*>(&Slotted<1>::symbol), \
    reinterpret_cast<void*>(&Slotted<2>::symbol), reinterpret_cast<void*>(&Slotted<3>::symbol)}},
#include KERNCAP_FOREIGN_DEF
};

const Row* row_of(const char* name) noexcept {
  for (const Row& row : rows)
    if (loaded::same_text(row.name, name)) return &row;
  return nullptr;
}

bool is_of(const Row& row, const loaded::Object& object) noexcept {
  return object.is_library(row.libraries[0]) ||
         (row.libraries[1] != nullptr && object.is_library(row.libraries[1]));
}

// What the object's own dependencies would give it.
void* through_caller(const loaded::Object& caller, const char* name) noexcept {
  void* handle = dlopen(caller.path[0] == 0 ? nullptr : caller.path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = next_libdl().dlsym(handle, name);
  dlclose(handle);
  return found;
}

// The library that a call out of `caller` is meant for: the only one of its kind, or among several the
// one that the caller is linked with, or else the first.
bool library_of(const Row& row, const void* caller, loaded::Object* found) noexcept {
  size_t count = 0;
  loaded::any([&](const loaded::Object& object) {
    if (object.base == loaded::self().base || object.function(row.name) == nullptr) return false;
    if (!is_of(row, object)) return false;
    if (count++ == 0) *found = object;
    return false;
  });
  if (count < 2) return count == 1;
  loaded::Object calling, linked;
  if (!loaded::object_of(caller, &calling)) return true;
  void* function = through_caller(calling, row.name);
  if (function != nullptr && loaded::object_of(function, &linked) && linked.base != loaded::self().base)
    *found = linked;
  return true;
}

const ForeignLibrary* for_caller(const char* name, const void* caller) noexcept {
  const Row* row = row_of(name);
  loaded::Object object;
  if (row == nullptr || !library_of(*row, caller, &object)) return nullptr;
  size_t slot = slot_of(object);
  return slot < slots ? libraries[slot].load(std::memory_order_acquire) : nullptr;
}

constexpr int not_found = 1;  // cudaErrorInvalidValue, NVRTC_ERROR_OUT_OF_MEMORY: there is no library to call

}  // namespace
}  // namespace kerncap

#define KERNCAP_FOREIGN(symbol, file, parameters, arguments)                                         \
  extern "C" __attribute__((visibility("default"))) int symbol parameters {                          \
    using namespace kerncap;                                                                         \
    const ForeignLibrary* kerncap_next = for_caller(#symbol, __builtin_return_address(0));           \
    if (kerncap_next == nullptr || kerncap_next->symbol == nullptr) return not_found;                \
    if (kerncap::gate::Own::active() || !capturing_process()) return kerncap_next->symbol arguments; \
    return ForeignWrap{*kerncap_next}.symbol arguments;                                              \
  }
#include KERNCAP_FOREIGN_DEF

namespace kerncap {

bool is_foreign_name(const char* name) noexcept {
  return row_of(name) != nullptr;
}

bool is_foreign_export(const char* name, const void* address) noexcept {
#define KERNCAP_FOREIGN(symbol, file, parameters, arguments) \
  if (loaded::same_text(#symbol, name)) return address == reinterpret_cast<void*>(&::symbol);
#include KERNCAP_FOREIGN_DEF
  return false;
}

bool foreign_is_loaded(const char* name, const void* caller) noexcept {
  return for_caller(name, caller) != nullptr;
}

void* wrapper_for_foreign(const char* name, void* real) noexcept {
  if (real == nullptr) return nullptr;
  loaded::Object object;
  if (!loaded::object_of(real, &object)) return real;
  if (void* own = libdl_wrapper(name)) {
    const NextLibdl next = next_libdl();
    bool is_next =
        real == reinterpret_cast<void*>(next.dlsym) || real == reinterpret_cast<void*>(next.dlvsym);
    return is_next || is_libdl(object) ? own : real;
  }
  const Row* row = row_of(name);
  if (row == nullptr || !is_of(*row, object)) return real;
  size_t slot = slot_of(object);
  return slot < slots ? row->wrappers[slot] : real;
}

}  // namespace kerncap
