// dlsym and dlvsym in front of glibc's: where a program asks for a function by name, each shim says what it
// gets.
#ifndef KERNCAP_COMMON_LIBDL_H
#define KERNCAP_COMMON_LIBDL_H

#include "common/loaded.h"

extern "C" struct KerncapRoute {
  void* value;    // the answer, where `forward` is null
  void* forward;  // the function to jump to
};

namespace kerncap {

// The functions of libdl that come after ours in the search order (glibc's, or another preload's).
struct NextLibdl {
  void* (*dlsym)(void*, const char*) = nullptr;
  void* (*dlvsym)(void*, const char*, const char*) = nullptr;
  void* libc_dlsym = nullptr;  // glibc's own
  void* libc_dlvsym = nullptr;
};
NextLibdl next_libdl() noexcept;
// Where glibc has dlsym and dlvsym, each of them in two versions.
bool is_libdl(const loaded::Object& object) noexcept;
// Our own function of this name ("dlsym", "dlvsym").
void* libdl_wrapper(const char* name) noexcept;
// The lookup as if this library made it; `version` is null for dlsym.
void* look_up(void* handle, const char* name, const char* version) noexcept;
// Whether the object that calls defines the function itself.
bool caller_defines(const void* caller, const char* name) noexcept;

// --- each shim's ------------------------------------------------------------------------------------

// True when this process is under capture. Cheap after the first call.
bool capturing_process() noexcept;
// Whether lookups of this name are the shim's to answer, apart from those in its foreign.def. Called before
// anything else has started.
bool is_own_name(const char* name) noexcept;
// How such a lookup goes on; `on` leaves it alone.
KerncapRoute own_route(void* handle, const char* name, const char* version, void* caller,
                       const KerncapRoute& on) noexcept;

}  // namespace kerncap

#endif  // KERNCAP_COMMON_LIBDL_H
