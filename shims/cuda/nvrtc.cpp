// What a program that compiles at run time gives to NVRTC: its source is then the kernel's source.
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "common/glibc_floor.h"
#include "cuda/foreign.h"
#include "cuda/images.h"

namespace kerncap::cuda {
namespace {

// A handle means something only to the library that made it.
using Handle = std::pair<uintptr_t, const void*>;

struct Programs {
  std::mutex mutex;
  std::map<Handle, NvrtcProgram> open;
};

Programs& programs() noexcept {
  static auto* instance = new Programs;
  return *instance;
}

template <typename Change>
void change(const ForeignLibrary& library, const void* program, Change&& apply) noexcept {
  Programs& all = programs();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.open.find({library.base, program});
  if (found != all.open.end()) apply(found->second);
}

// What was compiled is tied to the image that is loaded later by its bytes.
void remember(const ForeignLibrary& library, void* program, const char* bytes, size_t size) noexcept {
  change(library, program, [&](NvrtcProgram& known) { remember_result(bytes, size, &known, "nvrtc"); });
}

std::string text(const char* value) {
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

int ForeignWrap::nvrtcCreateProgram(void** program, const char* source, const char* name, int count,
                                    const char* const* headers, const char* const* names) const noexcept {
  int result = next.nvrtcCreateProgram(program, source, name, count, headers, names);
  if (result != 0 || program == nullptr) return result;
  NvrtcProgram fresh;
  fresh.source = text(source);
  fresh.name = text(name);
  for (int i = 0; i < count && headers != nullptr && names != nullptr; ++i)
    fresh.headers.emplace_back(text(names[i]), text(headers[i]));
  Programs& all = programs();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.open[{next.base, *program}] = std::move(fresh);
  return result;
}

int ForeignWrap::nvrtcDestroyProgram(void** program) const noexcept {
  const void* handle = program == nullptr ? nullptr : *program;
  int result = next.nvrtcDestroyProgram(program);
  Programs& all = programs();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (result == 0) all.open.erase({next.base, handle});
  return result;
}

int ForeignWrap::nvrtcCompileProgram(void* program, int count, const char* const* options) const noexcept {
  change(next, program, [&](NvrtcProgram& known) {
    known.options.clear();
    for (int i = 0; i < count && options != nullptr; ++i) known.options.push_back(text(options[i]));
  });
  return next.nvrtcCompileProgram(program, count, options);
}

int ForeignWrap::nvrtcGetPTXSize(void* program, size_t* size) const noexcept {
  return next.nvrtcGetPTXSize(program, size);
}

int ForeignWrap::nvrtcGetPTX(void* program, char* bytes) const noexcept {
  int result = next.nvrtcGetPTX(program, bytes);
  size_t size = 0;
  if (result == 0 && next.nvrtcGetPTXSize != nullptr && next.nvrtcGetPTXSize(program, &size) == 0)
    remember(next, program, bytes, size);
  return result;
}

int ForeignWrap::nvrtcGetCUBINSize(void* program, size_t* size) const noexcept {
  return next.nvrtcGetCUBINSize(program, size);
}

int ForeignWrap::nvrtcGetCUBIN(void* program, char* bytes) const noexcept {
  int result = next.nvrtcGetCUBIN(program, bytes);
  size_t size = 0;
  if (result == 0 && next.nvrtcGetCUBINSize != nullptr && next.nvrtcGetCUBINSize(program, &size) == 0)
    remember(next, program, bytes, size);
  return result;
}

int ForeignWrap::nvrtcAddNameExpression(void* program, const char* expression) const noexcept {
  int result = next.nvrtcAddNameExpression(program, expression);
  if (result == 0)
    change(next, program, [&](NvrtcProgram& known) { known.lowered.emplace_back(text(expression), ""); });
  return result;
}

int ForeignWrap::nvrtcGetLoweredName(void* program, const char* expression,
                                     const char** lowered) const noexcept {
  int result = next.nvrtcGetLoweredName(program, expression, lowered);
  if (result != 0 || lowered == nullptr) return result;
  change(next, program, [&](NvrtcProgram& known) {
    for (auto& [known_expression, name] : known.lowered)
      if (known_expression == text(expression)) name = text(*lowered);
  });
  return result;
}

namespace detail {
void lock_programs() noexcept {
  programs().mutex.lock();
}
void unlock_programs() noexcept {
  programs().mutex.unlock();
}
}  // namespace detail

}  // namespace kerncap::cuda
