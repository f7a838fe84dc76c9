// What the environment asks the emulated GPU to be. The variables are described in ../README.md.
#ifndef KERNCAP_AMD_GPU_CONFIG_H
#define KERNCAP_AMD_GPU_CONFIG_H

#include <cstdint>
#include <string>
#include <vector>

#include "../gpu.h"

namespace amd_gpu {

// One entry of AMD_GPU_FAIL, `what@number` or `what@number:address`.
struct Failure {
  std::string what;
  uint64_t number = 0;   // the first is 1
  uint64_t address = 0;  // of a memory fault
};

struct Config {
  Target target = Target::gfx90a;
  unsigned count = 1, threads = 1;
  bool large_bar = false;
  uint64_t memory_bytes = 16ULL << 30;
  std::vector<Failure> failures;
};

// Ends the process with one line where a variable makes no sense: a test must not run on another GPU than it
// asked for.
Config read_config();

[[noreturn]] void refuse(const std::string& what);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_CONFIG_H
