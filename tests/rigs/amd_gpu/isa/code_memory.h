// Memory for machine code of the host that lives as long as this, and through which exceptions may pass.
#ifndef KERNCAP_AMD_GPU_ISA_CODE_MEMORY_H
#define KERNCAP_AMD_GPU_ISA_CODE_MEMORY_H

#include <vector>

#include "numbers.h"

namespace amd_gpu {

class CodeMemory {
 public:
  CodeMemory() {}
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  // A function of HostCode. Null where the system gives no memory that may be executed.
  const u8* put(const std::vector<u8>& code);

 private:
  std::vector<u8*> blocks_;
  size_t used_ = 0;  // of the last one
};

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_CODE_MEMORY_H
