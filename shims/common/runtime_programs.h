// What a program that compiles at run time gives to its compiler (NVRTC, HIPRTC): the source of its kernels.
#ifndef KERNCAP_COMMON_RUNTIME_PROGRAMS_H
#define KERNCAP_COMMON_RUNTIME_PROGRAMS_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kerncap {

struct RuntimeProgram {
  std::string name;  // as the program was created with; may be empty
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::vector<std::string> options;
  std::vector<std::pair<std::string, std::string>> lowered;  // name expression, mangled name
};

// {"name", "source", "headers": {name: text}, "options": [text], "lowered": {expression: name}}
std::string json_of(const RuntimeProgram& program);

// The programs that are open. A handle means something only to the library that made it, so both name one.
namespace programs {

struct Handle {
  uintptr_t library;
  const void* program;
  bool operator<(const Handle& other) const noexcept {
    return library != other.library ? library < other.library : program < other.program;
  }
};

void created(Handle handle, const char* source, const char* name, int count, const char* const* headers,
             const char* const* names) noexcept;
void destroyed(Handle handle) noexcept;
void compiling(Handle handle, int count, const char* const* options) noexcept;
void expression_added(Handle handle, const char* expression) noexcept;
void lowered(Handle handle, const char* expression, const char* mangled) noexcept;
// False: no such program is open.
bool find(Handle handle, RuntimeProgram* program) noexcept;

// Around a fork.
void lock() noexcept;
void unlock() noexcept;

}  // namespace programs
}  // namespace kerncap

#endif  // KERNCAP_COMMON_RUNTIME_PROGRAMS_H
