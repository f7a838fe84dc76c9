// What a program that compiles at run time gives to NVRTC: its source is then the kernel's source.
#include "common/foreign.h"
#include "common/glibc_floor.h"
#include "common/runtime_programs.h"
#include "cuda/images.h"

namespace kerncap {
namespace {

// What was compiled is tied to the image that is loaded later by its bytes.
void remember(const ForeignLibrary& library, const void* handle, const char* bytes, size_t size) noexcept {
  RuntimeProgram program;
  if (programs::find({library.base, handle}, &program)) cuda::remember_result(bytes, size, &program, "nvrtc");
}

}  // namespace

int ForeignWrap::nvrtcCreateProgram(void** program, const char* source, const char* name, int count,
                                    const char* const* headers, const char* const* names) const noexcept {
  int result = next.nvrtcCreateProgram(program, source, name, count, headers, names);
  if (result == 0 && program != nullptr)
    programs::created({next.base, *program}, source, name, count, headers, names);
  return result;
}

int ForeignWrap::nvrtcDestroyProgram(void** program) const noexcept {
  const void* handle = program == nullptr ? nullptr : *program;
  int result = next.nvrtcDestroyProgram(program);
  if (result == 0) programs::destroyed({next.base, handle});
  return result;
}

int ForeignWrap::nvrtcCompileProgram(void* program, int count, const char* const* options) const noexcept {
  programs::compiling({next.base, program}, count, options);
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
  if (result == 0) programs::expression_added({next.base, program}, expression);
  return result;
}

int ForeignWrap::nvrtcGetLoweredName(void* program, const char* expression,
                                     const char** lowered) const noexcept {
  int result = next.nvrtcGetLoweredName(program, expression, lowered);
  if (result == 0 && lowered != nullptr) programs::lowered({next.base, program}, expression, *lowered);
  return result;
}

}  // namespace kerncap
