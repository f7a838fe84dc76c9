#include "hip/elf_symbols.h"

#include <elf.h>

#include <cstring>

namespace kerncap::hip {
namespace {

struct File {
  const uint8_t* data;
  size_t size;

  bool has(uint64_t offset, uint64_t count) const noexcept {
    return offset <= size && count <= size - offset;
  }
  template <typename T>
  bool read(uint64_t offset, T* value) const noexcept {
    if (!has(offset, sizeof *value)) return false;
    std::memcpy(value, data + offset, sizeof *value);
    return true;
  }
};

bool section(const File& file, const Elf64_Ehdr& header, uint32_t number, Elf64_Shdr* found) noexcept {
  return number < header.e_shnum && header.e_shentsize == sizeof *found &&
         file.read(header.e_shoff + uint64_t{number} * sizeof *found, found) &&
         file.has(found->sh_offset, found->sh_size);
}

bool is_named(const File& file, const Elf64_Shdr& names, const Elf64_Sym& symbol,
              const std::string& name) noexcept {
  size_t length = name.size() + 1;
  return symbol.st_name <= names.sh_size && length <= names.sh_size - symbol.st_name &&
         std::memcmp(file.data + names.sh_offset + symbol.st_name, name.c_str(), length) == 0;
}

}  // namespace

bool find_symbol(const uint8_t* data, size_t size, const std::string& name, uint64_t* address) noexcept {
  File file{data, size};
  Elf64_Ehdr header;
  if (data == nullptr || !file.read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return false;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr symbols, names;
    if (!section(file, header, i, &symbols) || symbols.sh_type != SHT_DYNSYM) continue;
    if (!section(file, header, symbols.sh_link, &names)) continue;
    Elf64_Sym symbol;
    for (uint64_t at = 0; at + sizeof symbol <= symbols.sh_size; at += sizeof symbol) {
      if (!file.read(symbols.sh_offset + at, &symbol) || !is_named(file, names, symbol, name)) continue;
      *address = symbol.st_value;
      return true;
    }
  }
  return false;
}

}  // namespace kerncap::hip
