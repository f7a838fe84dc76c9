// Every instruction that libLLVM's disassembler knows for a target, found by going through the opcodes.
#ifndef KERNCAP_TESTS_AMD_GPU_SWEEP_H
#define KERNCAP_TESTS_AMD_GPU_SWEEP_H

#include <map>
#include <string>
#include <vector>

#include "gpu.h"

namespace amd_gpu {

// How the emulator takes an instruction.
enum class Taken {
  executed,
  partly,   // not with every modifier
  refused,  // ends a dispatch with its name
};

struct Found {
  Taken taken;
  std::string text;            // of one encoding; what is refused if any is
  std::vector<uint8_t> bytes;  // of that encoding
};

// By mnemonic, without its encoding (_e32, _e64, _sdwa, _dpp). Throws Stop where libLLVM does not know the
// target.
std::map<std::string, Found> sweep(Target target);

}  // namespace amd_gpu

#endif  // KERNCAP_TESTS_AMD_GPU_SWEEP_H
