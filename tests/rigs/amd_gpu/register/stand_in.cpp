// librocprofiler-register.so.0 for a ROCm that has none: as AMD's, it looks for a tool in the process and in
// the environment, and hands the tables to rocprofiler-sdk. Source: rocprofiler_register.cpp of ROCm 7.2.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int rocprofiler_register_library_api_table(
    const char* library, uint32_t (*)(), uint32_t version, void** tables, uint64_t count, uint64_t*) {
  constexpr int success = 0, no_tools = 1, failed = 6;
  const char* sdk = std::getenv("ROCPROFILER_REGISTER_LIBRARY");
  if (sdk == nullptr && ::dlsym(RTLD_DEFAULT, "rocprofiler_configure") == nullptr) return no_tools;
  void* handle = ::dlopen(sdk != nullptr ? sdk : "librocprofiler-sdk.so", RTLD_GLOBAL | RTLD_LAZY);
  using SetTables = int (*)(const char*, uint64_t, uint64_t, void**, uint64_t);
  auto set_tables =
      handle != nullptr ? reinterpret_cast<SetTables>(::dlsym(handle, "rocprofiler_set_api_table")) : nullptr;
  if (set_tables == nullptr) {
    std::fprintf(stderr, "rocprofiler_set_api_table not found\n");
    std::abort();
  }
  return set_tables(library, version, 0, tables, count) == 0 ? success : failed;
}
