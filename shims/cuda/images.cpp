#include "cuda/images.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "common/glibc_floor.h"
#include "common/kept_images.h"
#include "common/mapped_file.h"

namespace kerncap::cuda {
namespace {

constexpr uint32_t wrapper_magic = 0x466243b1, fatbin_magic = 0xBA55ED50;
constexpr size_t text_limit = 256ULL << 20;

// Source: fatbinary_section.h of the toolkit.
struct Wrapper {
  uint32_t magic, version;
  const uint8_t* data;
  const void* more;  // version 2: what was linked into `data`, apart; not needed with it
};

struct Fatbin {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t payload_bytes;
};

size_t elf_size(const uint8_t* data) noexcept {
  Elf64_Ehdr header;
  std::memcpy(&header, data, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  size_t end = std::max<size_t>(sizeof header, header.e_shoff + size_t{header.e_shnum} * header.e_shentsize);
  end = std::max<size_t>(end, header.e_phoff + size_t{header.e_phnum} * header.e_phentsize);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, data + header.e_shoff + i * header.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, data + header.e_phoff + i * header.e_phentsize, sizeof segment);
    end = std::max<size_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

bool looks_like_text(const uint8_t* data) noexcept {
  for (size_t i = 0; i < 16; ++i) {
    if (data[i] == 0) return i > 0;
    if (data[i] >= 0x7f || (data[i] < 0x20 && std::strchr("\t\n\r", data[i]) == nullptr)) return false;
  }
  return true;
}

// How long these bytes are for who loads them, with no size to go by: PTX without its terminating zero,
// an ELF file without what is after its last section.
size_t loaded_size(const uint8_t* bytes, size_t size) noexcept {
  if (size < 64) return size;
  const uint8_t* start = nullptr;
  size_t measured = 0;
  if (looks_like_text(bytes)) return strnlen(reinterpret_cast<const char*>(bytes), size);
  measure(bytes, &start, &measured);
  return start == bytes && measured != 0 && measured <= size ? measured : size;
}

}  // namespace

Image::Kind measure(const void* data, const uint8_t** start, size_t* size) noexcept {
  const auto* bytes = static_cast<const uint8_t*>(data);
  *start = bytes;
  *size = 0;
  if (data == nullptr) return Image::Kind::unknown;
  uint32_t magic = 0;
  if (looks_like_text(bytes)) {
    *size = strnlen(reinterpret_cast<const char*>(bytes), text_limit);
    return *size < text_limit ? Image::Kind::ptx : Image::Kind::unknown;
  }
  std::memcpy(&magic, bytes, sizeof magic);
  if (magic == wrapper_magic) {
    Wrapper wrapper;
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    if (wrapper.data == nullptr) return Image::Kind::unknown;
    std::memcpy(&magic, wrapper.data, sizeof magic);
    return magic == wrapper_magic ? Image::Kind::unknown : measure(wrapper.data, start, size);
  }
  if (magic == fatbin_magic) {
    Fatbin fatbin;
    std::memcpy(&fatbin, bytes, sizeof fatbin);
    *size = fatbin.header_bytes + fatbin.payload_bytes;
    return Image::Kind::fatbin;
  }
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    *size = elf_size(bytes);
    return *size == 0 ? Image::Kind::unknown : Image::Kind::elf;
  }
  return Image::Kind::unknown;
}

Image* image_of(const void* data) noexcept try {
  const uint8_t* start = nullptr;
  size_t size = 0;
  Image::Kind kind = measure(data, &start, &size);
  if (kind == Image::Kind::unknown || size == 0) return images::unknown();
  std::string file = library_with(start, size);
  return file.empty() ? images::copied(kind, start, size, "")
                      : images::mapped(kind, start, size, std::move(file));
} catch (const std::bad_alloc&) {
  return nullptr;
}

Image* image_of_file(const char* path) noexcept try {
  if (path == nullptr) return nullptr;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};
  struct stat status = {};
  std::vector<uint8_t> bytes;
  if (floor::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<size_t>(status.st_size) < images::copied_limit) {
    bytes.resize(static_cast<size_t>(status.st_size) + 16);  // zeros: text ends, headers can be read
    size_t done = 0;
    ssize_t count = 0;
    while (done < static_cast<size_t>(status.st_size) &&
           (count = read(fd, bytes.data() + done, static_cast<size_t>(status.st_size) - done)) > 0)
      done += static_cast<size_t>(count);
  }
  if (bytes.size() <= 16) return nullptr;
  const uint8_t* start = nullptr;
  size_t size = 0;
  Image::Kind kind = measure(bytes.data(), &start, &size);
  if (kind == Image::Kind::unknown || start != bytes.data() || size > bytes.size()) return nullptr;
  return images::copied(kind, start, size, std::string("file ") + path);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void remember_result(const void* data, size_t size, const RuntimeProgram* program,
                     const char* origin) noexcept {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (data != nullptr && size != 0) images::remember_result(bytes, loaded_size(bytes, size), program, origin);
}

bool program_of_bytes(const void* data, size_t size, RuntimeProgram* program) noexcept {
  const auto* bytes = static_cast<const uint8_t*>(data);
  return data != nullptr && size != 0 && images::program_of(bytes, loaded_size(bytes, size), program);
}

bool program_of(const Image& image, RuntimeProgram* program) noexcept {
  return program_of_bytes(image.data, image.size, program);
}

}  // namespace kerncap::cuda
