#include "common/mapped_file.h"

#include <unistd.h>

#include <cstdio>

#include "common/loaded.h"

namespace kerncap {
namespace {

// The program's own file; /proc/self/exe is the loader if that was started to load it.
std::string program_with(uintptr_t address) {
  MappedFile mapped = mapped_file(address);
  if (mapped.path.compare(0, 1, "/") == 0) return mapped.path;
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

}  // namespace

MappedFile mapped_file(uint64_t address) {
  MappedFile found;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return found;
  char line[4400];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long start = 0, end = 0;
    char permissions[8] = "";
    int path_at = 0;
    if (std::sscanf(line, "%llx-%llx %7s %*s %*s %*s %n", &start, &end, permissions, &path_at) < 3) continue;
    if (address < start || address >= end) continue;
    if (path_at != 0) found.path = line + path_at;
    found.shared = permissions[3] == 's';
    break;
  }
  std::fclose(maps);
  while (!found.path.empty() && (found.path.back() == '\n' || found.path.back() == ' '))
    found.path.pop_back();
  return found;
}

std::string library_with(const uint8_t* data, size_t size) {
  loaded::Object object;
  if (!loaded::object_of(data, &object)) return {};
  auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < object.header_count; ++i) {
    const auto& segment = object.headers[i];
    uintptr_t start = object.base + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || begin < start || begin + size > start + segment.p_filesz) continue;
    if ((segment.p_flags & PF_W) != 0) return {};
    return object.path[0] != 0 ? object.path : program_with(begin);
  }
  return {};
}

}  // namespace kerncap
