#include "disassembler.h"

#include <dlfcn.h>

#include <mutex>

#include "wave.h"

namespace amd_gpu {
namespace {

// llvm-c/Disassembler.h; declared here because no LLVM headers are needed for three functions.
using Context = void*;
using Create = Context (*)(const char* triple, const char* cpu, const char* features, void*, int, void*,
                           void*);
using Decode = size_t (*)(Context, uint8_t*, uint64_t, uint64_t, char*, size_t);

struct Library {
  Create create = nullptr;
  Decode decode = nullptr;
  std::string missing;  // why it cannot be used
};

// The newest first: only those from 17 on know gfx942, from 20 on gfx950.
constexpr const char* names[] = {"libLLVM.so.22.1", "libLLVM.so.21.1", "libLLVM.so.20.1",
                                 "libLLVM.so.19.1", "libLLVM.so.18.1", "libLLVM-17.so.1",
                                 "libLLVM-16.so.1", "libLLVM-15.so.1", "libLLVM-14.so.1"};

Library open_library() {
  Library library;
  void* handle = nullptr;
  if (const char* chosen = std::getenv("AMD_GPU_LLVM")) {
    handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  } else {
    for (const char* name : names) {
      if ((handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND))) break;
    }
  }
  if (!handle) {
    const char* why = dlerror();
    library.missing = std::string("no libLLVM: ") + (why ? why : "not found");
    return library;
  }
  for (const char* name : {"LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                           "LLVMInitializeAMDGPUDisassembler"}) {
    auto* initialize = reinterpret_cast<void (*)()>(dlsym(handle, name));
    if (!initialize) {
      library.missing = std::string("this libLLVM has no ") + name;
      return library;
    }
    initialize();
  }
  library.create = reinterpret_cast<Create>(dlsym(handle, "LLVMCreateDisasmCPUFeatures"));
  library.decode = reinterpret_cast<Decode>(dlsym(handle, "LLVMDisasmInstruction"));
  if (!library.create || !library.decode) library.missing = "this libLLVM has no disassembler in C";
  return library;
}

// An instruction that only this target has, so that a libLLVM which falls back to another processor is seen.
bool knows(const Library& library, Context context, Target target) {
  uint8_t move[] = {0x02, 0x71, 0x04, 0x7e};  // v_mov_b64_e32 v[2:3], v[2:3]
  uint8_t swap[] = {0x01, 0xb3, 0x00, 0x7e};  // v_permlane16_swap_b32_e32 v0, v1
  uint8_t* const known = target == Target::gfx950 ? swap : move;
  char text[128] = "";
  return target == Target::gfx90a || library.decode(context, known, 4, 0, text, sizeof text) == 4;
}

}  // namespace

Disassembled disassemble(Target target, const uint8_t* bytes, size_t available, uint64_t pc) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> guard(mutex);
  static const Library& library = *new Library(open_library());
  if (!library.missing.empty()) throw Stop{FaultKind::unsupported, library.missing};
  static Context contexts[std::size(targets)] = {};
  Context& context = contexts[static_cast<unsigned>(target)];
  if (!context) {
    context = library.create("amdgcn-amd-amdhsa", name(target), "", nullptr, 0, nullptr, nullptr);
    if (!context || !knows(library, context, target)) {
      context = nullptr;
      throw Stop{FaultKind::unsupported, std::string("this libLLVM does not know ") + name(target)};
    }
  }
  uint8_t window[32] = {};
  const size_t size = std::min<size_t>(available, sizeof window);
  std::memcpy(window, bytes, size);
  char text[512] = "";
  Disassembled result;
  result.size_bytes = library.decode(context, window, size, pc, text, sizeof text);
  result.text = text;
  return result;
}

}  // namespace amd_gpu
