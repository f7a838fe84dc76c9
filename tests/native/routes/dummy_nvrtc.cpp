// An NVRTC whose programs are PTX already: it compiles one to itself, with a head.
#include <cstddef>
#include <cstring>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*,
                              const char* const*) {
  *program = new std::string(std::string(".version 8.0\n.target sm_90\n.address_size 64\n") + source + "\n");
  return 0;
}

EXPORT int nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  *program = nullptr;
  return 0;
}

EXPORT int nvrtcCompileProgram(void*, int, const char* const*) {
  return 0;
}
EXPORT int nvrtcAddNameExpression(void*, const char*) {
  return 0;
}

EXPORT int nvrtcGetLoweredName(void*, const char*, const char** lowered) {
  *lowered = "_Z1kv";
  return 0;
}

EXPORT int nvrtcGetPTXSize(void* program, size_t* size) {
  *size = static_cast<std::string*>(program)->size() + 1;
  return 0;
}

EXPORT int nvrtcGetPTX(void* program, char* text) {
  auto* ptx = static_cast<std::string*>(program);
  memcpy(text, ptx->c_str(), ptx->size() + 1);
  return 0;
}

EXPORT int nvrtcGetCUBINSize(void*, size_t*) {
  return 5;
}
EXPORT int nvrtcGetCUBIN(void*, char*) {
  return 5;
}
