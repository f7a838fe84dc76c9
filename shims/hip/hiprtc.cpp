// What a program that compiles at run time gives to HIPRTC: its source is then the kernel's source.
#include "common/capture.h"
#include "common/foreign.h"
#include "common/glibc_floor.h"
#include "common/kept_images.h"
#include "common/libdl.h"
#include "common/runtime_programs.h"
#include "hip/fork.h"

namespace kerncap {

// Also asked before there is a runtime: a program may compile first.
bool capturing_process() noexcept {
  static const bool capturing = [] {
    bool armed = capture::armed();
    if (armed) hip::watch_fork();
    return armed;
  }();
  return capturing;
}

bool is_own_name(const char*) noexcept {
  return false;
}

KerncapRoute own_route(void*, const char*, const char*, void*, const KerncapRoute& on) noexcept {
  return on;
}

int ForeignWrap::hiprtcCreateProgram(void** program, const char* source, const char* name, int count,
                                     const char* const* headers, const char* const* names) const noexcept {
  int result = next.hiprtcCreateProgram(program, source, name, count, headers, names);
  if (result == 0 && program != nullptr)
    programs::created({next.base, *program}, source, name, count, headers, names);
  return result;
}

int ForeignWrap::hiprtcDestroyProgram(void** program) const noexcept {
  const void* handle = program == nullptr ? nullptr : *program;
  int result = next.hiprtcDestroyProgram(program);
  if (result == 0) programs::destroyed({next.base, handle});
  return result;
}

int ForeignWrap::hiprtcCompileProgram(void* program, int count, const char* const* options) const noexcept {
  programs::compiling({next.base, program}, count, options);
  return next.hiprtcCompileProgram(program, count, options);
}

int ForeignWrap::hiprtcGetCodeSize(void* program, size_t* size) const noexcept {
  return next.hiprtcGetCodeSize(program, size);
}

int ForeignWrap::hiprtcGetCode(void* program, char* code) const noexcept {
  int result = next.hiprtcGetCode(program, code);
  size_t size = 0;
  RuntimeProgram known;
  if (result == 0 && code != nullptr && next.hiprtcGetCodeSize != nullptr &&
      next.hiprtcGetCodeSize(program, &size) == 0 && programs::find({next.base, program}, &known))
    images::remember_result(reinterpret_cast<const uint8_t*>(code), size, &known, "hiprtc");
  return result;
}

int ForeignWrap::hiprtcAddNameExpression(void* program, const char* expression) const noexcept {
  int result = next.hiprtcAddNameExpression(program, expression);
  if (result == 0) programs::expression_added({next.base, program}, expression);
  return result;
}

int ForeignWrap::hiprtcGetLoweredName(void* program, const char* expression,
                                      const char** lowered) const noexcept {
  int result = next.hiprtcGetLoweredName(program, expression, lowered);
  if (result == 0 && lowered != nullptr) programs::lowered({next.base, program}, expression, *lowered);
  return result;
}

}  // namespace kerncap
