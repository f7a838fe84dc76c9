// The parameter list that a cubin carries.
//
// Section .nv.info.<kernel> is a list of attributes: format (1 byte), attribute (1 byte), then 2 bytes
// that are the value, or, for format 4, the number of bytes that follow. Attribute 0x17 is one
// parameter: index (4 bytes), ordinal (2), offset (2), and 4 bytes of which the upper 14 bits are the size.
// Source: cuobjdump -elf of cubins made for this purpose.
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "cuda/images.h"

namespace kerncap::cuda {
namespace {

constexpr uint8_t sized_format = 4, parameter_attribute = 0x17;

struct Section {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

template <typename T>
bool read(const Image& image, size_t offset, T* value) noexcept {
  if (offset > image.size || image.size - offset < sizeof *value) return false;
  std::memcpy(value, image.data + offset, sizeof *value);
  return true;
}

bool find_section(const Image& image, const std::string& wanted, Section* found) noexcept {
  Elf64_Ehdr header;
  Elf64_Shdr names, section;
  if (!read(image, 0, &header) ||
      !read(image, header.e_shoff + size_t{header.e_shstrndx} * header.e_shentsize, &names))
    return false;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    if (!read(image, header.e_shoff + i * header.e_shentsize, &section)) return false;
    size_t name = names.sh_offset + section.sh_name;
    if (name + wanted.size() + 1 > image.size || section.sh_offset + section.sh_size > image.size) continue;
    if (std::memcmp(image.data + name, wanted.c_str(), wanted.size() + 1) != 0) continue;
    *found = {image.data + section.sh_offset, section.sh_size};
    return true;
  }
  return false;
}

}  // namespace

bool layout_in_cubin(const Image& image, const std::string& kernel, std::vector<Parameter>* layout) noexcept {
  Section info;
  if (image.kind != Image::Kind::elf || !find_section(image, ".nv.info." + kernel, &info)) return false;
  std::vector<std::pair<uint16_t, Parameter>> found;
  for (size_t at = 0; at + 4 <= info.size;) {
    const uint8_t* entry = info.data + at;
    uint16_t bytes = 0;
    std::memcpy(&bytes, entry + 2, sizeof bytes);
    size_t payload = entry[0] == sized_format ? bytes : 0;
    if (at + 4 + payload > info.size) return false;
    if (entry[0] == sized_format && entry[1] == parameter_attribute && payload >= 12) {
      uint16_t ordinal = 0, offset = 0;
      uint32_t packed = 0;
      std::memcpy(&ordinal, entry + 8, sizeof ordinal);
      std::memcpy(&offset, entry + 10, sizeof offset);
      std::memcpy(&packed, entry + 12, sizeof packed);
      found.push_back({ordinal, {offset, packed >> 18}});
    }
    at += 4 + payload;
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  layout->clear();
  for (const auto& [ordinal, parameter] : found) layout->push_back(parameter);
  return true;
}

}  // namespace kerncap::cuda
