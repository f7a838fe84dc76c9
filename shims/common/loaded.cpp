#include "common/glibc_floor.h"

#include "common/loaded.h"

#include <elf.h>

namespace kerncap::loaded {
namespace {

struct Dynamic {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* sysv_hash = nullptr;
  const char* soname = nullptr;
};

// glibc relocates the addresses in a loaded object's dynamic section; the vDSO's, and musl's, stay
// relative to the base.
uintptr_t address_in(const Object& object, ElfW(Addr) value) {
  return value < object.base ? object.base + value : value;
}

Dynamic dynamic_of(const Object& object) noexcept {
  Dynamic found;
  size_t soname = 0;
  bool has_soname = false;
  for (const ElfW(Dyn)* entry = object.dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    uintptr_t address = address_in(object, entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        found.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        found.strings = reinterpret_cast<const char*>(address);
        break;
      case DT_GNU_HASH:
        found.gnu_hash = reinterpret_cast<const uint32_t*>(address);
        break;
      case DT_HASH:
        found.sysv_hash = reinterpret_cast<const uint32_t*>(address);
        break;
      case DT_SONAME:
        soname = entry->d_un.d_val;
        has_soname = true;
        break;
      default:
        break;
    }
  }
  if (has_soname && found.strings != nullptr) found.soname = found.strings + soname;
  return found;
}

bool names_function(const Dynamic& dynamic, const ElfW(Sym) & symbol, const char* name) noexcept {
  return symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
         same_text(dynamic.strings + symbol.st_name, name);
}

const ElfW(Sym) * find_gnu(const Dynamic& dynamic, const char* name) noexcept {
  uint32_t hash = 5381;
  for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<uint8_t>(*c);
  const uint32_t* table = dynamic.gnu_hash;
  uint32_t buckets = table[0], first = table[1], bloom_words = table[2], shift = table[3];
  if (buckets == 0 || bloom_words == 0) return nullptr;
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(table + 4);
  constexpr uint32_t bits = sizeof(ElfW(Addr)) * 8;
  ElfW(Addr) word = bloom[(hash / bits) % bloom_words];
  if (((word >> (hash % bits)) & (word >> ((hash >> shift) % bits)) & 1) == 0) return nullptr;
  const auto* bucket = reinterpret_cast<const uint32_t*>(bloom + bloom_words);
  const uint32_t* chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    uint32_t entry = chain[index - first];
    if (((entry ^ hash) >> 1) == 0 && names_function(dynamic, dynamic.symbols[index], name))
      return &dynamic.symbols[index];
    if ((entry & 1) != 0) return nullptr;
  }
}

const ElfW(Sym) * find_sysv(const Dynamic& dynamic, const char* name) noexcept {
  uint32_t hash = 0;
  for (const char* c = name; *c != 0; ++c) {
    hash = (hash << 4) + static_cast<uint8_t>(*c);
    uint32_t high = hash & 0xf0000000U;
    hash ^= high >> 24;
    hash &= ~high;
  }
  uint32_t buckets = dynamic.sysv_hash[0];
  if (buckets == 0) return nullptr;
  const uint32_t* bucket = dynamic.sysv_hash + 2;
  const uint32_t* chain = bucket + buckets;
  for (uint32_t index = bucket[hash % buckets]; index != 0; index = chain[index])
    if (names_function(dynamic, dynamic.symbols[index], name)) return &dynamic.symbols[index];
  return nullptr;
}

bool starts_with(const char* text, const char* prefix) noexcept {
  for (; *prefix != 0; ++text, ++prefix)
    if (*text != *prefix) return false;
  return true;
}

const char* file_name(const char* path) noexcept {
  const char* name = path;
  for (; *path != 0; ++path)
    if (*path == '/') name = path + 1;
  return name;
}

struct Walk {
  bool (*visit)(const Object&, void*);
  void* context;
  size_t position = 0;
};

int step(struct dl_phdr_info* info, size_t, void* context) {
  auto* walk = static_cast<Walk*>(context);
  Object object;
  object.base = info->dlpi_addr;
  object.path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  object.headers = info->dlpi_phdr;
  object.header_count = info->dlpi_phnum;
  object.position = walk->position++;
  for (size_t i = 0; i < object.header_count; ++i)
    if (object.headers[i].p_type == PT_DYNAMIC)
      object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.base + object.headers[i].p_vaddr);
  return walk->visit(object, walk->context) ? 1 : 0;
}

}  // namespace

bool same_text(const char* a, const char* b) noexcept {
  for (; *a != 0 && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}

bool Object::holds(const void* address) const noexcept {
  auto value = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; i < header_count; ++i) {
    if (headers[i].p_type != PT_LOAD) continue;
    uintptr_t begin = base + headers[i].p_vaddr;
    if (value >= begin && value - begin < headers[i].p_memsz) return true;
  }
  return false;
}

void* Object::function(const char* name) const noexcept {
  Dynamic tables = dynamic_of(*this);
  if (tables.symbols == nullptr || tables.strings == nullptr) return nullptr;
  const ElfW(Sym)* symbol = nullptr;
  if (tables.gnu_hash != nullptr)
    symbol = find_gnu(tables, name);
  else if (tables.sysv_hash != nullptr)
    symbol = find_sysv(tables, name);
  return symbol == nullptr ? nullptr : reinterpret_cast<void*>(base + symbol->st_value);
}

bool Object::is_library(const char* prefix) const noexcept {
  const char* soname = dynamic_of(*this).soname;
  return starts_with(soname != nullptr ? soname : file_name(path), prefix);
}

bool any(bool (*visit)(const Object&, void*), void* context) noexcept {
  Walk walk{visit, context};
  return dl_iterate_phdr(step, &walk) != 0;
}

bool object_of(const void* address, Object* found) noexcept {
  return any([&](const Object& object) {
    if (!object.holds(address)) return false;
    *found = object;
    return true;
  });
}

const Object& self() noexcept {
  static const Object object = [] {
    Object found;
    object_of(reinterpret_cast<const void*>(&step), &found);
    return found;
  }();
  return object;
}

unsigned long long generation() noexcept {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](struct dl_phdr_info* info, size_t, void* context) {
        *static_cast<unsigned long long*>(context) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

}  // namespace kerncap::loaded
