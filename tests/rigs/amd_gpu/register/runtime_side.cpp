// libkerncap_amd_register.so: what ROCr does when it is built with rocprofiler-register, as AMD's and torch's
// are and Debian's is not. `run` puts it in front of HSA_TOOLS_LIB, so it is the first tool that ROCr calls:
// it passes the tables to rocprofiler-register, and if a tool is registered there, ROCr finds no OnLoad in
// any other. Source: Runtime::LoadTools of ROCr 7.2.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" int rocprofiler_register_library_api_table(const char*, uint32_t (*)(), uint32_t, void**, uint64_t,
                                                      uint64_t*);

namespace {

uint32_t version() {
  return 11800;  // ROCr 1.18
}

void* symbol_for_runtime(void* library, const char* name) {
  return std::strcmp(name, "OnLoad") == 0 ? nullptr : ::dlsym(library, name);
}

// From here on the runtime's own dlsym finds no OnLoad.
void hide_other_tools() {
  void* handle = ::dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) std::abort();
  auto* map = static_cast<link_map*>(handle);
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * tables[2] = {};
  size_t sizes[2] = {};
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
        break;
      case DT_STRTAB:
        names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
        break;
      case DT_JMPREL:
        tables[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        sizes[0] = entry->d_un.d_val;
        break;
      case DT_RELA:
        tables[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        break;
      case DT_RELASZ:
        sizes[1] = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  bool found = false;
  for (int table = 0; table < 2; ++table) {
    for (size_t i = 0; i < sizes[table] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela) & place = tables[table][i];
      auto symbol = ELF64_R_SYM(place.r_info);
      if (symbol == 0 || std::strcmp(names + symbols[symbol].st_name, "dlsym") != 0) continue;
      auto* slot = reinterpret_cast<void**>(map->l_addr + place.r_offset);
      auto page = reinterpret_cast<uintptr_t>(slot) & ~static_cast<uintptr_t>(::getpagesize() - 1);
      // It is read-only where the runtime was linked with -z now.
      ::mprotect(reinterpret_cast<void*>(page), static_cast<size_t>(::getpagesize()), PROT_READ | PROT_WRITE);
      *slot = reinterpret_cast<void*>(symbol_for_runtime);
      found = true;
    }
  }
  if (!found) std::abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(void* tables, uint64_t, uint64_t,
                                                              const char* const*) {
  uint64_t id = 0;
  int status = rocprofiler_register_library_api_table("hsa", version, version(), &tables, 1, &id);
  if (status == 0 && std::getenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS") == nullptr) hide_other_tools();
  return true;
}
