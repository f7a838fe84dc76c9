// Launches inside of NVTX ranges. The program is its own NVTX: it hands its table of callbacks to the library
// that NVTX_INJECTION64_PATH names, as the headers of NVTX do, and calls through it.
//   ranges             a launch in each of a few ranges
//   ranges wait FILE   launches every few milliseconds until FILE is there, in the ranges "step" and
//                      "even"/"odd"
//   ranges profile     as the first; halfway the program takes CUPTI's clock and buffers for itself
#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "client.h"

namespace {

using Function = void (*)();
Function core_functions[16], core2_functions[16];
Function* core_table[16];
Function* core2_table[16];

int get_table(int module, Function*** table, unsigned* size) {
  *table = module == 1 ? core_table : module == 5 ? core2_table : nullptr;
  *size = 16;
  return *table != nullptr;
}

struct Callbacks {
  size_t struct_size;
  int (*get_table)(int, Function***, unsigned*);
} callbacks{sizeof(Callbacks), get_table};

const void* export_table(uint32_t id) {
  return id == 1 ? &callbacks : nullptr;
}

void start_nvtx() {
  for (size_t i = 0; i < 16; ++i) {
    core_table[i] = &core_functions[i];
    core2_table[i] = &core2_functions[i];
  }
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* library = path ? dlopen(path, RTLD_LAZY) : nullptr;
  if (!library) return;
  auto initialize =
      reinterpret_cast<int (*)(const void* (*)(uint32_t))>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize) initialize(export_table);
}

void push(const char* name) {
  if (core_functions[9]) reinterpret_cast<int (*)(const char*)>(core_functions[9])(name);
}
void pop() {
  if (core_functions[11]) reinterpret_cast<int (*)()>(core_functions[11])();
}
uint64_t begin(const wchar_t* name) {
  return core_functions[6] ? reinterpret_cast<uint64_t (*)(const wchar_t*)>(core_functions[6])(name) : 0;
}
void end(uint64_t range) {
  if (core_functions[7]) reinterpret_cast<void (*)(uint64_t)>(core_functions[7])(range);
}

struct Attributes {
  uint16_t version = 3, size = 48;
  uint32_t words[5] = {};
  uint32_t reserved[2] = {};
  int32_t message_type = 3, padding = 0;
  const void* message = nullptr;
};
static_assert(sizeof(Attributes) == 48, "nvtxEventAttributes_t");

// A domain's range by a registered name.
void push_registered(const char* domain_name, const char* name) {
  if (!core2_functions[10]) return;
  auto* domain = reinterpret_cast<const void* (*)(const char*)>(core2_functions[12])(domain_name);
  Attributes attributes;
  attributes.message =
      reinterpret_cast<const void* (*)(const void*, const char*)>(core2_functions[10])(domain, name);
  reinterpret_cast<int (*)(const void*, const Attributes*)>(core2_functions[4])(domain, &attributes);
}
void pop_registered(const char* domain_name) {
  if (!core2_functions[12]) return;
  auto* domain = reinterpret_cast<const void* (*)(const char*)>(core2_functions[12])(domain_name);
  reinterpret_cast<int (*)(const void*)>(core2_functions[5])(domain);
}

void request_none(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = nullptr;
  *size = *most = 0;
}
void complete_none(void*, uint32_t, uint8_t*, size_t, size_t) {}

uint64_t own_clock() {
  return 1;
}

// As torch's profiler does it: a clock of its own, then the buffers.
void take_cupti() {
  void* library = dlopen("libcupti.so.13", RTLD_LAZY);
  auto set = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuptiActivityRegisterTimestampCallback"));
  if (!set || set(reinterpret_cast<void*>(own_clock)) != 0) std::exit(72);
  auto take = reinterpret_cast<int (*)(void*, void*)>(dlsym(library, "cuptiActivityRegisterCallbacks"));
  if (!take || take(reinterpret_cast<void*>(request_none), reinterpret_cast<void*>(complete_none)) != 0)
    std::exit(71);
}

struct Program {
  int n = 4096;
  float factor = 1.5f;
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr x = upload(ramp(4096));

  void run(unsigned grid = 16) { launch(scale, grid, 256, {&x, &factor, &n}); }
};

void some_ranges(Program& p, bool takes_cupti) {
  p.run();
  push("step");
  p.run();
  push_registered("library", "attention");
  p.run();
  pop();  // the default domain's own: "attention" stays
  p.run();
  pop_registered("library");
  CHECK(cuCtxSynchronize());
  if (takes_cupti) take_cupti();
  uint64_t epoch = begin(L"\u00e9poque");
  push("step");
  p.run();
  p.run(32);
  pop();
  end(epoch);
  p.run();
}

void launch_until(Program& p, const char* file) {
  for (int i = 0; i < 20000 && access(file, F_OK) != 0; ++i) {
    push("step");
    push(i % 2 ? "odd" : "even");
    p.factor = i % 2 ? 2.0f : 0.5f;
    p.run();
    pop();
    pop();
    CHECK(cuCtxSynchronize());
    usleep(3000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  start_nvtx();
  start();
  Program p;
  if (what == "wait" && argc > 2) {
    launch_until(p, argv[2]);
    return 0;
  }
  some_ranges(p, what == "profile");
  CHECK(cuCtxSynchronize());
  report("x", download<float>(p.x, 4096));
  return 0;
}
