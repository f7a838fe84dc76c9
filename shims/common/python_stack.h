// The Python stack of this thread, if its interpreter can write it by itself.
#ifndef KERNCAP_COMMON_PYTHON_STACK_H
#define KERNCAP_COMMON_PYTHON_STACK_H

#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace kerncap {

struct PythonFrame {
  std::string file, function;
  unsigned line = 0;
};
using PythonStack = std::vector<PythonFrame>;  // innermost last

// Empty if there is no Python, if this thread runs none, or if the interpreter does not export its
// traceback writer (3.11 and 3.12 do; 3.9, 3.10, 3.13 and 3.14 mostly don't). Takes no GIL and no lock.
PythonStack python_stack_here();

// Whether this thread runs Python code, so that no other thread of its interpreter does.
bool has_interpreter_lock() noexcept;

// What `_Py_DumpTraceback` wrote; the frames of Triton's runtime and of kerncap's hook, which launch for the
// line above them, are left out.
PythonStack parse_python_stack(std::string_view text);

void write_stack(json::Writer& json, Key name, const PythonStack& stack);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_PYTHON_STACK_H
