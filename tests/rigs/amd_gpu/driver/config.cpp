#include "config.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace amd_gpu {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t number(const std::string& name, const std::string& text, uint64_t least, uint64_t most) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || text[0] == '-' || *end != '\0' || errno != 0 || value < least || value > most) {
    refuse(name + "=" + text + ": expected a number from " + std::to_string(least) + " to " +
           std::to_string(most));
  }
  return value;
}

void read_number(const char* name, uint64_t least, uint64_t most, uint64_t& value) {
  const std::string text = variable(name);
  if (!text.empty()) value = number(name, text, least, most);
}

Target read_target() {
  const std::string text = variable("AMD_GPU_GFX");
  if (text.empty()) return Target::gfx90a;
  for (const Target target : targets) {
    if (text == name(target)) return target;
  }
  refuse("AMD_GPU_GFX=" + text + ": gfx90a, gfx942 and gfx950 are emulated");
}

Failure read_failure(const std::string& entry) {
  static const char* const known[] = {"memory", "aperture", "illegal", "trap",
                                      "packet", "hang",     "queue",   "allocation"};
  const std::string name = "AMD_GPU_FAIL";
  const size_t at = entry.find('@');
  Failure failure;
  failure.what = entry.substr(0, at);
  bool is_known = false;
  for (const char* what : known) is_known = is_known || failure.what == what;
  if (at == std::string::npos || !is_known) {
    refuse(name + "=" + entry +
           ": expected WHAT@NUMBER with WHAT one of memory, aperture, illegal, trap, packet, hang, queue, "
           "allocation");
  }
  const size_t colon = entry.find(':', at);
  failure.number =
      number(name, entry.substr(at + 1, colon == std::string::npos ? colon : colon - at - 1), 1, UINT64_MAX);
  if (colon != std::string::npos) failure.address = number(name, entry.substr(colon + 1), 0, UINT64_MAX);
  return failure;
}

std::vector<Failure> read_failures() {
  std::vector<Failure> failures;
  const std::string text = variable("AMD_GPU_FAIL");
  for (size_t from = 0; from < text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    failures.push_back(read_failure(text.substr(from, comma - from)));
    from = comma + 1;
  }
  return failures;
}

}  // namespace

void refuse(const std::string& what) {
  const std::string line = "amd-gpu: " + what + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) _exit(3);
  _exit(2);
}

Config read_config() {
  Config config;
  uint64_t level = 0, large_bar = 0, count = 1, threads = std::max(1u, std::thread::hardware_concurrency());
  read_number("AMD_GPU_LOG", 0, 5, level);
  read_number("AMD_GPU_LARGE_BAR", 0, 1, large_bar);
  read_number("AMD_GPU_COUNT", 1, 4, count);
  read_number("AMD_GPU_THREADS", 1, 1024, threads);
  read_number("AMD_GPU_MEMORY", 1ULL << 20, 64ULL << 30, config.memory_bytes);
  log_level = static_cast<int>(level);
  config.large_bar = large_bar != 0;
  config.count = static_cast<unsigned>(count);
  config.threads = static_cast<unsigned>(threads);
  config.memory_bytes &= ~4095ULL;
  config.target = read_target();
  config.failures = read_failures();
  return config;
}

}  // namespace amd_gpu
