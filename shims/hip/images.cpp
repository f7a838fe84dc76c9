#include "hip/images.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <vector>

#include "common/glibc_floor.h"
#include "common/kept_images.h"
#include "common/mapped_file.h"

namespace kerncap::hip {
namespace {

// The file that the bytes are mapped from by other means (hipModuleLoad); empty for none. Such a mapping
// ends when the module is unloaded, so its bytes are copied.
std::string file_of(const uint8_t* data) {
  std::string path = mapped_file(reinterpret_cast<uintptr_t>(data)).path;
  bool is_file = !path.empty() && path[0] == '/' && path.compare(0, 5, "/dev/") != 0 &&
                 path.compare(0, 7, "/memfd:") != 0;
  return is_file ? path : std::string();
}

Image::Kind kind_of(const uint8_t* data, size_t size) {
  return size > SELFMAG && std::memcmp(data, ELFMAG, SELFMAG) == 0 ? Image::Kind::elf : Image::Kind::unknown;
}

bool read_whole(int fd, size_t size, std::vector<uint8_t>* bytes) {
  bytes->resize(size);
  size_t done = 0;
  // pread: the descriptor's position is the target's.
  while (done < size) {
    ssize_t count = pread(fd, bytes->data() + done, size - done, static_cast<off_t>(done));
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

Image* image_of(const void* data, size_t size) noexcept try {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (bytes == nullptr || size == 0) return nullptr;
  Image::Kind kind = kind_of(bytes, size);
  std::string library = library_with(bytes, size);
  if (!library.empty()) return images::mapped(kind, bytes, size, std::move(library));
  std::string file = file_of(bytes);
  return images::copied(kind, bytes, size, file.empty() ? "" : "file " + file);
} catch (const std::bad_alloc&) {
  return nullptr;
}

Image* image_of_file(int fd) noexcept try {
  struct stat status = {};
  if (floor::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return nullptr;
  auto size = static_cast<size_t>(status.st_size);
  std::vector<uint8_t> bytes;
  if (size > images::copied_limit || !read_whole(fd, size, &bytes)) return nullptr;
  char path[4096];
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  ssize_t length = readlink(link.c_str(), path, sizeof path);
  std::string name = length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
  return images::copied(kind_of(bytes.data(), size), bytes.data(), size, name.empty() ? "" : "file " + name);
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace kerncap::hip
