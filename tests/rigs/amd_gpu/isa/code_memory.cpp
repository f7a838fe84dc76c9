#include "code_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace amd_gpu {
namespace {

constexpr size_t block_bytes = 1 << 20;

// How a call inside of a function that HostCode::begin() begins is unwound, as .eh_frame has it. Source:
// DWARF 5, "Call Frame Information"; System V ABI for AMD64, "DWARF Definition".
struct [[gnu::packed]] UnwindTable {
  u32 common_bytes = 24, common_id = 0;
  // Version, no augmentation, units of 1 and -8, where the return address is; the frame is at rbp + 16, and
  // before it are rbp, the return address, rbx and r12.
  u8 common[20] = {1, 0, 1, 0x78, 16, 0x0c, 6, 16, 0x86, 2, 0x90, 1, 0x83, 3, 0x8c, 4};
  u32 bytes = 20, back_to_common = 32;
  u64 first;
  u64 size = block_bytes;
  u32 end = 0;
};

}  // namespace

extern "C" void __register_frame(void*);
extern "C" void __deregister_frame(void*);

CodeMemory::~CodeMemory() {
  for (u8* block : blocks_) {
    __deregister_frame(block);
    munmap(block, block_bytes);
  }
}

const u8* CodeMemory::put(const std::vector<u8>& code) {
  constexpr size_t first = (sizeof(UnwindTable) + 63) & ~size_t{63};
  if (code.size() > block_bytes - first) return nullptr;
  if (blocks_.empty() || used_ + code.size() > block_bytes) {
    void* block =
        mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
    const UnwindTable table{.first = reinterpret_cast<u64>(block)};
    std::memcpy(block, &table, sizeof table);
    __register_frame(block);
    blocks_.push_back(static_cast<u8*>(block));
    used_ = first;
  }
  u8* at = blocks_.back() + used_;
  std::memcpy(at, code.data(), code.size());
  used_ += (code.size() + 63) & ~size_t{63};
  return at;
}

}  // namespace amd_gpu
