#include "cuda/images.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "common/glibc_floor.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/loaded.h"

namespace kerncap::cuda {
namespace {

constexpr uint32_t wrapper_magic = 0x466243b1, fatbin_magic = 0xBA55ED50;
constexpr size_t copied_limit = 1ULL << 30;
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

struct Result {
  size_t size;
  Fingerprint print;
  std::shared_ptr<const RuntimeProgram> program;  // null: made by the linker out of other inputs
  const char* origin;
};

struct Known {
  std::mutex mutex;
  std::vector<Result> results;
  std::multimap<size_t, std::pair<Fingerprint, Image*>> copies;  // by size
  std::map<const uint8_t*, Image*> mapped;
  size_t copied = 0;
};

// Never destroyed: kernels are launched, and their images written, until the process ends.
Known& known() noexcept {
  static auto* instance = new Known;
  return *instance;
}

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

// The file whose unwritable mapping holds these bytes; empty for none.
std::string file_of(const uint8_t* data, size_t size) noexcept {
  loaded::Object object;
  if (!loaded::object_of(data, &object)) return {};
  auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < object.header_count; ++i) {
    const auto& segment = object.headers[i];
    uintptr_t start = object.base + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || begin < start || begin + size > start + segment.p_filesz) continue;
    if ((segment.p_flags & PF_W) != 0) return {};
    if (object.path[0] != 0) return object.path;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
  }
  return {};
}

const Result* result_with(const Known& all, size_t size, const Fingerprint& print) noexcept {
  // The newest first: one program compiled twice gives the same bytes twice.
  for (auto result = all.results.rbegin(); result != all.results.rend(); ++result)
    if (result->size == size && result->print == print) return &*result;
  return nullptr;
}

const Result* result_of(const Known& all, const uint8_t* data, size_t size) noexcept {
  for (const Result& result : all.results)
    if (result.size == size) return result_with(all, size, fingerprint(data, size));
  return nullptr;
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

Image* made(Image::Kind kind, const uint8_t* data, size_t size, std::string origin) {
  auto* image = new Image;
  image->kind = kind;
  image->data = data;
  image->size = size;
  image->origin = std::move(origin);
  return image;
}

Image* copy_of(Image::Kind kind, const uint8_t* data, size_t size, const std::string& origin) {
  Known& all = known();
  Fingerprint print = fingerprint(data, size);
  std::lock_guard<std::mutex> lock(all.mutex);
  auto range = all.copies.equal_range(size);
  for (auto entry = range.first; entry != range.second; ++entry)
    if (entry->second.first == print) return entry->second.second;
  const Result* result = result_with(all, size, print);
  if (all.copied + size > copied_limit)
    return made(Image::Kind::unknown, nullptr, 0, "not kept: more than 1 GiB of images in memory");
  auto* bytes = new uint8_t[size + 1];
  std::memcpy(bytes, data, size);
  bytes[size] = 0;
  all.copied += size;
  Image* image = made(kind, bytes, size, result != nullptr ? result->origin : origin);
  all.copies.emplace(size, std::make_pair(print, image));
  return image;
}

Image* mapped_image(Image::Kind kind, const uint8_t* data, size_t size, std::string file) {
  Known& all = known();
  std::lock_guard<std::mutex> lock(all.mutex);
  Image*& image = all.mapped[data];
  // A library that was unloaded leaves its address to another one.
  if (image == nullptr || image->size != size || image->mapped_from != file) {
    image = made(kind, data, size, "");
    image->mapped_from = std::move(file);
  }
  return image;
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
  if (kind == Image::Kind::unknown || size == 0) return made(Image::Kind::unknown, nullptr, 0, "");
  std::string file = file_of(start, size);
  return file.empty() ? copy_of(kind, start, size, "") : mapped_image(kind, start, size, std::move(file));
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
      static_cast<size_t>(status.st_size) < copied_limit) {
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
  return copy_of(kind, start, size, std::string("file ") + path);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void remember_result(const void* data, size_t size, const RuntimeProgram* program,
                     const char* origin) noexcept try {
  if (data == nullptr || size == 0) return;
  const auto* bytes = static_cast<const uint8_t*>(data);
  size = loaded_size(bytes, size);
  Known& all = known();
  Result result{size, fingerprint(bytes, size), nullptr, origin};
  if (program != nullptr) result.program = std::make_shared<const RuntimeProgram>(*program);
  std::lock_guard<std::mutex> lock(all.mutex);
  for (Result& old : all.results) {
    if (old.size != result.size || old.print != result.print) continue;
    old = std::move(result);
    return;
  }
  all.results.push_back(std::move(result));
} catch (const std::bad_alloc&) {
  // Its source stays unknown.
}

bool program_of_bytes(const void* data, size_t size, RuntimeProgram* program) noexcept {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (data == nullptr || size == 0) return false;
  size = loaded_size(bytes, size);
  Known& all = known();
  std::lock_guard<std::mutex> lock(all.mutex);
  const Result* result = result_of(all, bytes, size);
  if (result == nullptr || result->program == nullptr) return false;
  *program = *result->program;
  return true;
}

bool program_of(const Image& image, RuntimeProgram* program) noexcept {
  return program_of_bytes(image.data, image.size, program);
}

namespace detail {
void lock_images() noexcept {
  known().mutex.lock();
}
void unlock_images() noexcept {
  known().mutex.unlock();
}
}  // namespace detail

}  // namespace kerncap::cuda
