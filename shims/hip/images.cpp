#include "hip/images.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "common/glibc_floor.h"
#include "common/hash.h"
#include "common/text.h"

namespace kerncap::hip {
namespace {

constexpr size_t copied_limit = 1ULL << 30;

struct Compiled {
  Fingerprint print;
  RuntimeProgram program;
};

struct Known {
  std::mutex mutex;
  std::multimap<size_t, Compiled> compiled;                      // by size
  std::multimap<size_t, std::pair<Fingerprint, Image*>> copies;  // by size
  std::map<const uint8_t*, Image*> mapped;
  size_t copied = 0;
};

// Never destroyed: kernels are launched, and their images written, until the process ends.
Known& known() noexcept {
  static auto* instance = new Known;
  return *instance;
}

RuntimeProgram* program_in(Known& all, const Fingerprint& print, size_t size) {
  auto range = all.compiled.equal_range(size);
  for (auto entry = range.first; entry != range.second; ++entry)
    if (entry->second.print == print) return &entry->second.program;
  return nullptr;
}

Image* made(Image::Kind kind, const uint8_t* data, size_t size, std::string origin) {
  auto* image = new Image;
  image->kind = kind;
  image->data = data;
  image->size = size;
  image->origin = std::move(origin);
  return image;
}

// The file that the bytes are mapped from by other means (hipModuleLoad); empty for none. Such a mapping
// ends when the module is unloaded, so its bytes are copied.
std::string mapped_file_of(const uint8_t* data) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return {};
  char line[4400];
  std::string found;
  auto address = reinterpret_cast<uintptr_t>(data);
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long start = 0, end = 0;
    int path_at = 0;
    if (std::sscanf(line, "%llx-%llx %*s %*s %*s %*s %n", &start, &end, &path_at) < 2 || path_at == 0)
      continue;
    if (address < start || address >= end) continue;
    found = line + path_at;
    while (!found.empty() && (found.back() == '\n' || found.back() == ' ')) found.pop_back();
    break;
  }
  std::fclose(maps);
  bool is_file = !found.empty() && found[0] == '/' && found.compare(0, 5, "/dev/") != 0 &&
                 found.compare(0, 7, "/memfd:") != 0;
  return is_file ? found : std::string();
}

struct Search {
  uintptr_t begin, end;
  std::string file;
};

// The program's own file; /proc/self/exe is the loader if that was started to load it.
std::string program_path(const uint8_t* data) {
  std::string mapped = mapped_file_of(data);
  if (!mapped.empty()) return mapped;
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

int look_into(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.begin < start || search.end > start + segment.p_filesz) continue;
    if ((segment.p_flags & PF_W) != 0) return 1;
    bool is_named = info->dlpi_name != nullptr && info->dlpi_name[0] != 0;
    search.file = is_named ? info->dlpi_name : program_path(reinterpret_cast<const uint8_t*>(search.begin));
    return 1;
  }
  return 0;
}

// The library or program whose unwritable mapping holds these bytes; empty for none.
std::string library_of(const uint8_t* data, size_t size) {
  auto begin = reinterpret_cast<uintptr_t>(data);
  Search search{begin, begin + size, {}};
  dl_iterate_phdr(look_into, &search);
  return search.file;
}

Image* copy_of(Image::Kind kind, const uint8_t* data, size_t size, const std::string& origin) {
  Known& all = known();
  Fingerprint print = fingerprint(data, size);
  std::lock_guard<std::mutex> lock(all.mutex);
  auto range = all.copies.equal_range(size);
  for (auto entry = range.first; entry != range.second; ++entry)
    if (entry->second.first == print) return entry->second.second;
  if (all.copied + size > copied_limit)
    return made(Image::Kind::unknown, nullptr, 0, "not kept: more than 1 GiB of images in memory");
  auto* bytes = new uint8_t[size];
  std::memcpy(bytes, data, size);
  all.copied += size;
  Image* image = made(kind, bytes, size, program_in(all, print, size) == nullptr ? origin : "hiprtc");
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
  std::string library = library_of(bytes, size);
  if (!library.empty()) return mapped_image(kind, bytes, size, std::move(library));
  std::string file = mapped_file_of(bytes);
  return copy_of(kind, bytes, size, file.empty() ? "" : "file " + file);
} catch (const std::bad_alloc&) {
  return nullptr;
}

Image* image_of_file(int fd) noexcept try {
  struct stat status = {};
  if (floor::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return nullptr;
  auto size = static_cast<size_t>(status.st_size);
  std::vector<uint8_t> bytes;
  if (size > copied_limit || !read_whole(fd, size, &bytes)) return nullptr;
  char path[4096];
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  ssize_t length = readlink(link.c_str(), path, sizeof path);
  std::string name = length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
  return copy_of(kind_of(bytes.data(), size), bytes.data(), size, name.empty() ? "" : "file " + name);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void note_program(const void* code, size_t size, const RuntimeProgram& program) noexcept try {
  Known& all = known();
  Fingerprint print = fingerprint(static_cast<const uint8_t*>(code), size);
  std::lock_guard<std::mutex> lock(all.mutex);
  RuntimeProgram* known_program = program_in(all, print, size);
  if (known_program != nullptr)
    *known_program = program;
  else
    all.compiled.emplace(size, Compiled{print, program});
} catch (const std::bad_alloc&) {
  // Its source stays unknown.
}

bool program_of(const Image& image, RuntimeProgram* program) noexcept {
  if (image.data == nullptr) return false;
  Known& all = known();
  Fingerprint print = fingerprint(image.data, image.size);
  std::lock_guard<std::mutex> lock(all.mutex);
  const RuntimeProgram* found = program_in(all, print, image.size);
  if (found != nullptr) *program = *found;
  return found != nullptr;
}

void lock_images() noexcept {
  known().mutex.lock();
}
void unlock_images() noexcept {
  known().mutex.unlock();
}

}  // namespace kerncap::hip
