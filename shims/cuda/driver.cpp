#include "cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <new>

#include "common/glibc_floor.h"
#include "common/libdl.h"
#include "common/loaded.h"
#include "common/this_thread.h"
#include "cuda/interpose.h"

namespace kerncap::cuda {

KERNCAP_READ_BY_EACH_CALL std::atomic<const Driver*> detail::known_driver{nullptr};

namespace {

struct Slot {
  const char* name;
  size_t offset;
};

constexpr Slot hooked_slots[] = {
#define KERNCAP_HOOK(symbol, result, parameters, arguments) {#symbol, offsetof(Driver, symbol)},
#include "cuda/hooks.def"
};
constexpr Slot called_slots[] = {
#define KERNCAP_CALL(symbol, result, parameters) {#symbol, offsetof(Driver, symbol)},
#include "cuda/calls.def"
};
constexpr size_t hooks = sizeof(hooked_slots) / sizeof(hooked_slots[0]);

struct Loaded : Driver {
  void* own[hooks] = {};  // the driver's symbols, where it may hold another wrapper's
};

void set_slot(Driver* driver, size_t offset, void* function) noexcept {
  std::memcpy(reinterpret_cast<char*>(driver) + offset, &function, sizeof function);
}

bool is_driver(const loaded::Object& object) noexcept {
  return object.is_library("libcuda.so");
}

bool find_driver(loaded::Object* found) noexcept {
  return loaded::any([&](const loaded::Object& object) {
    if (!is_driver(object) || object.function("cuInit") == nullptr) return false;
    *found = object;
    return true;
  });
}

// A library between us and the driver that defines driver functions too, or wraps dlsym: the wrappers
// call through it, as they would if we were not here.
bool others_between(const loaded::Object& driver) noexcept {
  const size_t mine = loaded::self().position;
  if (reinterpret_cast<void*>(next_libdl().dlsym) != next_libdl().libc_dlsym) return true;
  return loaded::any([&](const loaded::Object& object) {
    if (object.position <= mine || object.base == driver.base || is_driver(object)) return false;
    for (const Slot& slot : hooked_slots)
      if (object.function(slot.name) != nullptr) return true;
    return false;
  });
}

// Asks the linker: RTLD_NEXT means "after this library" only where the call comes from here, so it must
// not become a tail call.
__attribute__((noinline)) void* after_us(const char* name) noexcept {
  auto next = reinterpret_cast<void* (*)(void*, const char*)>(next_libdl().libc_dlsym);
  void* found = next(RTLD_NEXT, name);
  __asm__ volatile("" : "+r"(found));
  return found;
}

__attribute__((noinline)) void* through_handle(void* handle, const char* name) noexcept {
  void* found = next_libdl().dlsym(handle, name);
  __asm__ volatile("" : "+r"(found));
  return found;
}

bool defines(const void* function, const char* name) noexcept {
  loaded::Object object;
  return loaded::object_of(function, &object) && object.base != loaded::self().base &&
         object.function(name) == function;
}

void chain(Loaded* loaded_driver, const loaded::Object& driver) noexcept {
  void* handle = dlopen(driver.path, RTLD_LAZY | RTLD_NOLOAD);
  for (size_t i = 0; i < hooks; ++i) {
    if (loaded_driver->own[i] == nullptr) continue;
    void* next = after_us(hooked_slots[i].name);
    // A data symbol of the same name (a program's own table of pointers) is no function to call.
    if (next == nullptr || !defines(next, hooked_slots[i].name))
      next = handle == nullptr ? nullptr : through_handle(handle, hooked_slots[i].name);
    if (next != nullptr) set_slot(loaded_driver, hooked_slots[i].offset, next);
  }
  if (handle != nullptr) dlclose(handle);
  dlerror();
}

// No lock: two threads may do this at once, and one result is kept. A lock would be held across the
// linker's, which a constructor that calls us may hold already.
const Loaded* load() noexcept {
  loaded::Object object;
  if (!find_driver(&object)) return nullptr;
  auto* fresh = new (std::nothrow) Loaded;
  if (fresh == nullptr) return nullptr;
  for (size_t i = 0; i < hooks; ++i) {
    fresh->own[i] = object.function(hooked_slots[i].name);
    set_slot(fresh, hooked_slots[i].offset, fresh->own[i]);
  }
  for (const Slot& slot : called_slots) set_slot(fresh, slot.offset, object.function(slot.name));
  if (others_between(object)) chain(fresh, object);
  const Driver* expected = nullptr;
  if (detail::known_driver.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return static_cast<const Loaded*>(expected);
}

const Loaded* loaded_driver() noexcept {
  return static_cast<const Loaded*>(driver());
}

}  // namespace

const Driver* detail::find_driver() noexcept {
  return load();
}

void* next_of(size_t hook) noexcept {
  const Loaded* found = loaded_driver();
  if (found == nullptr || hook >= hooks) return nullptr;
  void* function = nullptr;
  std::memcpy(&function,
              reinterpret_cast<const char*>(static_cast<const Driver*>(found)) + hooked_slots[hook].offset,
              sizeof function);
  return function;
}

void* own_symbol_of(size_t hook) noexcept {
  const Loaded* found = loaded_driver();
  return found == nullptr || hook >= hooks ? nullptr : found->own[hook];
}

}  // namespace kerncap::cuda
