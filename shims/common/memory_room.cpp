#include "common/glibc_floor.h"

#include "common/memory_room.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "common/clock.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr uint64_t reserve_bytes = 64U << 20;  // is left to the target
constexpr uint64_t tmpfs_magic = 0x01021994, ramfs_magic = 0x858458f6;

// The number after `name` at the start of a line.
bool number_after(const std::string& text, const std::string& name, uint64_t* number) {
  for (const std::string& line : split(text, '\n')) {
    if (line.compare(0, name.size(), name) != 0) continue;
    char* end = nullptr;
    const char* from = line.c_str() + name.size();
    *number = std::strtoull(from, &end, 10);
    return end != from;
  }
  return false;
}

bool lives_in_memory(const std::string& folder) {
  struct statfs status;
  if (::statfs(folder.c_str(), &status) != 0) return false;
  auto type = static_cast<uint32_t>(status.f_type);
  return type == tmpfs_magic || type == ramfs_magic;
}

struct GroupFiles {
  const char *limit, *usage, *cache;  // `cache`: what is only cached of files goes before anything is short
};

uint64_t left_in_group(const std::string& folder, const GroupFiles& files) {
  uint64_t limit = 0, usage = 0, cache = 0;
  if (!number_after(read_file(folder + files.limit, 64), "", &limit) ||  // "max": none
      !number_after(read_file(folder + files.usage, 64), "", &usage))
    return UINT64_MAX;
  number_after(read_file(folder + "/memory.stat", 16384), files.cache, &cache);
  usage -= std::min(usage, cache);
  return limit - std::min(limit, usage);
}

}  // namespace

uint64_t left_in_groups(const std::string& line, const std::string& mounted_at) {
  constexpr GroupFiles unified{"/memory.max", "/memory.current", "inactive_file "};
  constexpr GroupFiles legacy{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "};
  size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return UINT64_MAX;
  std::string kinds = "," + line.substr(first + 1, second - first - 1) + ",";
  bool is_unified = line.compare(0, 3, "0::") == 0;
  if (!is_unified && kinds.find(",memory,") == std::string::npos) return UINT64_MAX;
  std::string base = mounted_at + (is_unified ? "" : "/memory"), path = line.substr(second + 1);
  uint64_t least = UINT64_MAX;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    least = std::min(least, left_in_group(base + path, is_unified ? unified : legacy));
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

uint64_t available_memory() {
  uint64_t least = UINT64_MAX, kib = 0;
  if (number_after(read_file("/proc/meminfo", 8192), "MemAvailable:", &kib)) least = kib * 1024;
  for (const std::string& line : split(read_file("/proc/self/cgroup", 16384), '\n'))
    least = std::min(least, left_in_groups(line, "/sys/fs/cgroup"));
  return least;
}

bool memory_has_room(uint64_t size) {
  return size <= available_memory() / 2;
}

uint64_t free_space(const std::string& folder) {
  KeepErrno keep;
  struct statvfs status;
  if (::statvfs(folder.c_str(), &status) != 0) return UINT64_MAX;
  // A file system that counts no blocks (some network ones) says nothing.
  uint64_t free = status.f_blocks == 0 ? UINT64_MAX : uint64_t{status.f_bavail} * status.f_frsize;
  if (!lives_in_memory(folder)) return free;
  uint64_t memory = available_memory();
  return std::min(free, memory - std::min(memory, reserve_bytes));
}

}  // namespace kerncap
