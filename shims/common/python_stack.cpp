#include "common/glibc_floor.h"

#include "common/python_stack.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "common/clock.h"
#include "common/own_fd.h"
#include "common/quiet_signals.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t max_bytes = 256 * 1024, max_frames = 100;

// The writer that faulthandler uses: reads this thread's frames, allocates nothing and waits for nothing.
// Source: cpython's pycore_traceback.h; the same two parameters from 3.3 on. From 3.13 on it is exported
// under no name before 3.15's PyUnstable_DumpTraceback.
struct Interpreter {
  void (*dump)(int fd, void* thread_state) = nullptr;
  void* (*this_thread)() = nullptr;
  int (*has_lock)() = nullptr;
};

void* symbol(const char* name) noexcept {
  return ::dlsym(RTLD_DEFAULT, name);
}

// Looked for once: an interpreter that comes later belongs to a program that is not a Python program.
const Interpreter& interpreter() noexcept {
  static const Interpreter found = [] {
    Interpreter one;
    void* dump = symbol("_Py_DumpTraceback");
    if (dump == nullptr) dump = symbol("PyUnstable_DumpTraceback");
    one.dump = reinterpret_cast<void (*)(int, void*)>(dump);
    one.this_thread = reinterpret_cast<void* (*)()>(symbol("PyGILState_GetThisThreadState"));
    one.has_lock = reinterpret_cast<int (*)()>(symbol("PyGILState_Check"));
    if (one.this_thread == nullptr) one.dump = nullptr;
    ::dlerror();
    return one;
  }();
  return found;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

bool launches_for_others(const PythonFrame& frame) {
  return contains(frame.file, "/kerncap_triton/") || contains(frame.file, "/triton/runtime/") ||
         contains(frame.file, "/triton/backends/");
}

// `  File "/a b.py", line 12 in name`
bool parse_line(std::string_view line, PythonFrame* frame) {
  constexpr std::string_view head = "  File \"", middle = "\", line ";
  if (line.substr(0, head.size()) != head) return false;
  size_t quote = line.rfind(middle);
  size_t in = line.find(" in ", quote == std::string_view::npos ? 0 : quote);
  if (quote == std::string_view::npos || quote < head.size() || in == std::string_view::npos) return false;
  uint64_t number = 0;
  size_t at = quote + middle.size();
  parse_u64(line.substr(at, in - at), &number);  // "???" stays 0
  frame->file = std::string(line.substr(head.size(), quote - head.size()));
  frame->line = static_cast<unsigned>(number);
  frame->function = std::string(line.substr(in + 4));
  return true;
}

}  // namespace

PythonStack parse_python_stack(std::string_view text) {
  PythonStack stack;
  for (const std::string& line : split(text, '\n')) {
    PythonFrame frame;
    if (stack.size() < max_frames && parse_line(line, &frame)) stack.push_back(std::move(frame));
  }
  size_t skipped = 0;
  while (skipped < stack.size() && launches_for_others(stack[skipped])) ++skipped;
  stack.erase(stack.begin(), stack.begin() + static_cast<ptrdiff_t>(skipped));
  std::reverse(stack.begin(), stack.end());  // written with the most recent call first
  return stack;
}

PythonStack python_stack_here() {
  const Interpreter& python = interpreter();
  if (python.dump == nullptr) return {};
  KeepErrno keep;
  QuietSignals quiet;  // the limit on file sizes is a memfd's, too
  void* state = python.this_thread();
  if (state == nullptr) return {};
  // A file, not a pipe: a pipe that is full would stop the target.
  OwnFd file(static_cast<int>(::memfd_create("kerncap-stack", MFD_CLOEXEC)));
  if (file.get() < 0) return {};
  python.dump(file.get(), state);
  std::string text(max_bytes, '\0');
  ssize_t size = ::pread(file.get(), &text[0], text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return parse_python_stack(text);
}

bool has_interpreter_lock() noexcept {
  const Interpreter& python = interpreter();
  return python.has_lock != nullptr && python.has_lock() != 0;
}

void write_stack(json::Writer& json, Key name, const PythonStack& stack) {
  json.key(name).begin_array();
  for (const PythonFrame& frame : stack)
    json.begin_array().value(frame.file).value(frame.line).value(frame.function).end();
  json.end();
}

}  // namespace kerncap
