// What the rig reads of an image: names, parameters and variables. Code is never looked at.
//
// Source of the formats: a fatbin's wrapper is declared in the toolkit's fatbinary_section.h; the
// container behind it and EIATTR_KPARAM_INFO in .nv.info sections are known from public readers.
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "state.h"

namespace rig {

namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1, kFatbinMagic = 0xBA55ED50;
constexpr uint16_t kFatbinPtx = 1, kFatbinElf = 2;

struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of the entries
};

struct FatbinEntry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes;  // 0: not compressed
};

template <class T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

CUresult parse_fatbin(const uint8_t* data, ParsedImage* parsed) {
  auto header = read<FatbinHeader>(data);
  const uint8_t *at = data + header.header_bytes, *end = at + header.bytes;
  const uint8_t *ptx = nullptr, *elf = nullptr;
  size_t ptx_bytes = 0, elf_bytes = 0;
  while (at + sizeof(FatbinEntry) <= end) {
    auto entry = read<FatbinEntry>(at);
    const uint8_t* payload = at + entry.header_bytes;
    if (!entry.header_bytes || payload + entry.payload_bytes > end) break;
    if (!entry.compressed_bytes) {
      if (entry.kind == kFatbinElf) elf = payload, elf_bytes = entry.payload_bytes;
      if (entry.kind == kFatbinPtx) ptx = payload, ptx_bytes = entry.payload_bytes;
    }
    at = payload + entry.payload_bytes;
  }
  if (elf) return parse_elf(elf, elf_bytes, parsed) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
  if (!ptx) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (faults().no_jit) return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  std::string text(reinterpret_cast<const char*>(ptx),
                   strnlen(reinterpret_cast<const char*>(ptx), ptx_bytes));
  return parse_ptx(text, parsed) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

const Elf64_Shdr* section_named(const uint8_t* data, const std::string& name) {
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(data);
  auto* sections = reinterpret_cast<const Elf64_Shdr*>(data + header->e_shoff);
  auto* names = reinterpret_cast<const char*>(data + sections[header->e_shstrndx].sh_offset);
  for (int i = 0; i < header->e_shnum; ++i)
    if (name == names + sections[i].sh_name) return &sections[i];
  return nullptr;
}

void read_parameters(const uint8_t* info, size_t bytes, KernelImage* kernel) {
  constexpr uint8_t kSized = 0x04, kKernelParameter = 0x17;
  std::map<unsigned, ParameterLayout> by_ordinal;
  for (size_t at = 0; at + 4 <= bytes;) {
    uint8_t format = info[at], attribute = info[at + 1];
    size_t size = format == kSized ? read<uint16_t>(info + at + 2) : 0;
    if (format == kSized && attribute == kKernelParameter && size >= 12 && at + 16 <= bytes) {
      unsigned ordinal = read<uint16_t>(info + at + 8), offset = read<uint16_t>(info + at + 10);
      unsigned length = read<uint32_t>(info + at + 12) >> 18;
      by_ordinal[ordinal] = {offset, length};
    }
    at += 4 + size;
  }
  for (const auto& [ordinal, layout] : by_ordinal) {
    kernel->parameters.push_back(layout);
    kernel->parameter_bytes = std::max(kernel->parameter_bytes, layout.offset + layout.size);
  }
}

// kerncap's own helpers, to be refused where a test wants the way without them.
CUresult unless_refused(const ParsedImage& parsed) {
  if (!faults().no_helpers) return CUDA_SUCCESS;
  for (const KernelImage& kernel : parsed.kernels)
    if (kernel.name.rfind("kerncap_", 0) == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  return CUDA_SUCCESS;
}

}  // namespace

size_t elf_size(const uint8_t* data) {
  auto header = read<Elf64_Ehdr>(data);
  size_t end = std::max<size_t>(header.e_shoff + size_t{header.e_shentsize} * header.e_shnum,
                                header.e_phoff + size_t{header.e_phentsize} * header.e_phnum);
  auto* sections = reinterpret_cast<const Elf64_Shdr*>(data + header.e_shoff);
  for (int i = 0; i < header.e_shnum; ++i)
    if (sections[i].sh_type != SHT_NOBITS)
      end = std::max<size_t>(end, sections[i].sh_offset + sections[i].sh_size);
  return end;
}

bool parse_elf(const uint8_t* data, size_t size, ParsedImage* parsed) {
  if (size < sizeof(Elf64_Ehdr) || std::memcmp(data, ELFMAG, SELFMAG) != 0 || data[EI_CLASS] != ELFCLASS64)
    return false;
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(data);
  if (header->e_machine != EM_CUDA || elf_size(data) > size) return false;
  auto* sections = reinterpret_cast<const Elf64_Shdr*>(data + header->e_shoff);
  auto* section_names = reinterpret_cast<const char*>(data + sections[header->e_shstrndx].sh_offset);
  const Elf64_Shdr* table = section_named(data, ".symtab");
  if (!table) return false;
  auto* names = reinterpret_cast<const char*>(data + sections[table->sh_link].sh_offset);
  auto* symbols = reinterpret_cast<const Elf64_Sym*>(data + table->sh_offset);
  constexpr unsigned kEntry = 0x10;  // STO_CUDA_ENTRY
  for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); ++i) {
    const Elf64_Sym& symbol = symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= header->e_shnum) continue;
    const Elf64_Shdr& section = sections[symbol.st_shndx];
    std::string name = names + symbol.st_name, section_name = section_names + section.sh_name;
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_FUNC && (symbol.st_other & kEntry)) {
      KernelImage kernel;
      kernel.name = name;
      if (const Elf64_Shdr* info = section_named(data, ".nv.info." + name))
        read_parameters(data + info->sh_offset, info->sh_size, &kernel);
      if (const Elf64_Shdr* shared = section_named(data, ".nv.shared." + name))
        kernel.shared_bytes = shared->sh_size;
      parsed->kernels.push_back(kernel);
    } else if (type == STT_OBJECT) {
      bool constant = section_name.rfind(".nv.constant", 0) == 0;
      if (!constant && section_name.rfind(".nv.global", 0) != 0) continue;
      Variable variable;
      variable.name = name;
      variable.size = symbol.st_size;
      variable.alignment = std::max<size_t>(section.sh_addralign, 1);
      variable.constant = constant;
      if (section.sh_type != SHT_NOBITS) {
        const uint8_t* at = data + section.sh_offset + symbol.st_value;
        variable.initial.assign(at, at + symbol.st_size);
      }
      parsed->variables.push_back(variable);
    }
  }
  return true;
}

CUresult parse_image(const void* image, size_t size, ParsedImage* parsed) {
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  auto* data = static_cast<const uint8_t*>(image);
  uint32_t magic = read<uint32_t>(data);
  if (magic == kWrapperMagic) return parse_image(read<const void*>(data + 8), 0, parsed);
  if (magic == kFatbinMagic) return parse_fatbin(data, parsed);
  if (std::memcmp(data, ELFMAG, SELFMAG) == 0)
    return parse_elf(data, size ? size : elf_size(data), parsed) ? unless_refused(*parsed)
                                                                 : CUDA_ERROR_INVALID_IMAGE;
  parsed->is_ptx = true;
  if (faults().no_jit) return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  auto* text = reinterpret_cast<const char*>(data);
  std::string ptx(text, size ? strnlen(text, size) : std::strlen(text));
  return parse_ptx(ptx, parsed) ? unless_refused(*parsed) : CUDA_ERROR_INVALID_PTX;
}

}  // namespace rig
