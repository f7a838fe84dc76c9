// Registers that are computed, and the parts of memory access that are not worth inlining.
#include "wave.h"

#include <algorithm>

namespace amd_gpu {
namespace {

// For so few bytes memset and "rep stos" take longer than what follows; the compiler makes neither of a loop
// with an instruction that it doesn't know.
void clear(u32* to, u32 words) {
  using Sixteen = u32 __attribute__((vector_size(64), may_alias));
  for (u32 k = 0; k < words; k += 16) {
    asm volatile("");
    *reinterpret_cast<Sixteen*>(to + k) = Sixteen{};
  }
}

}  // namespace

void stop_unreachable(const PageTable& memory, u64 va, bool write) {
  Mapping mapping;
  const bool mapped = memory.find(va, mapping);
  throw Stop{FaultKind::memory, mapped ? "write to read-only memory" : "no memory is mapped there", va,
             write};
}

void stop_aperture(const char* what, u64 va, bool write) {
  throw Stop{FaultKind::aperture, std::string("outside of the dispatch's ") + what, va, write};
}

u8* Reach::search(u64 va, u64 bytes, bool write) {
  for (auto candidate = recent_.begin() + 1; candidate != recent_.end(); ++candidate) {
    if (!candidate->holds(va, bytes)) continue;
    std::rotate(recent_.begin(), candidate, candidate + 1);
    break;
  }
  if (!recent_[0].holds(va, 1)) {
    Mapping found;
    if (!memory_->find(va, found)) stop_unreachable(*memory_, va, write);
    std::rotate(recent_.begin(), recent_.end() - 1, recent_.end());
    recent_[0] = found;
  }
  if (write && !recent_[0].writable) stop_unreachable(*memory_, va, write);
  return recent_[0].holds(va, bytes) ? recent_[0].host + (va - recent_[0].device_va) : nullptr;
}

void Reach::read(u64 va, void* to, u32 bytes) {
  if (const u8* from = inside_one(va, bytes, false)) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (u32 k = 0; k < bytes; k++) static_cast<u8*>(to)[k] = *inside_one(va + k, 1, false);
}

void Reach::write(u64 va, const void* from, u32 bytes) {
  if (u8* to = inside_one(va, bytes, true)) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (u32 k = 0; k < bytes; k++) *inside_one(va + k, 1, true) = static_cast<const u8*>(from)[k];
}

void Wave::reset(u32 vector_registers, u32 accumulation_registers) {
  clear(vector[0], vector_registers * lanes);
  clear(vector[256], accumulation_registers * lanes);
  clear(scalar, scalar_registers + 16);  // loads of up to sixteen words may begin at the last
  if (scratch_) std::memset(scratch_.get(), 0, static_cast<size_t>(shared.private_bytes) * lanes);
  scc = indexing = done = at_barrier = pause = false;
  waits_for_pass = 0;
  last = nullptr;
}

u32 Wave::read_special(u16 index) const {
  switch (index) {
    case shared_base:
      return high32(shared_aperture);
    case private_base:
      return high32(private_aperture);
    case shared_limit:
      return high32(shared_aperture);
    case private_limit:
      return high32(private_aperture);
    case vccz:
      return vcc() == 0;
    case execz:
      return exec() == 0;
    case amd_gpu::scc:
      return scc;
    default:
      throw Stop{FaultKind::unsupported, "scalar register " + std::to_string(index)};
  }
}

u64 Wave::read_scalar_pair(u16 index) const {
  switch (index) {
    case shared_base:
      return shared_aperture;
    case private_base:
      return private_aperture;
    case shared_limit:
      return shared_aperture | 0xffffffff;
    case private_limit:
      return private_aperture | 0xffffffff;
    default:
      return index < scalar_registers ? pair(index) : read_special(index);
  }
}

u64 Wave::get_other64(const Operand& operand) const {
  switch (operand.kind) {
    case Operand::Kind::scalar:
      return operand.words == 1 && operand.index < scalar_registers ? scalar[operand.index]
                                                                    : read_scalar_pair(operand.index);
    case Operand::Kind::integer:
      return static_cast<u64>(operand.constant->integer);
    case Operand::Kind::real:
      return as<u64>(operand.constant->real);
    default:
      return 0;
  }
}

u8* Wave::scratch_at(u32 offset, u32 bytes, unsigned lane, bool write) {
  const u32 own = shared.private_bytes;
  if (static_cast<u64>(offset) + bytes > own) stop_aperture("scratch", private_aperture | offset, write);
  if (!scratch_) scratch_ = std::make_unique<u8[]>(static_cast<size_t>(own) * lanes);
  return &scratch_[static_cast<size_t>(lane) * own + offset];
}

void Wave::jump(u64 target) {
  // A loop may wait for the host or another queue, for ever.
  const bool is_backward = target < pc;
  pc = target;
  if (is_backward && shared.cancelled()) throw Stop{FaultKind::cancelled, "the dispatch was cancelled"};
}

}  // namespace amd_gpu
