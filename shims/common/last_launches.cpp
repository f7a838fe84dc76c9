#include "common/last_launches.h"

#include "common/text.h"

namespace kerncap::last_launches {

Ring ring;

const Kernel* last_on(const void* stream) noexcept {
  const uint64_t end = ring.next.load(std::memory_order_acquire);
  for (uint64_t number = end; number > 0 && end - number < kept; --number) {
    Entry& entry = ring.entries[(number - 1) % kept];
    const Kernel* kernel = entry.kernel.load();
    if (entry.number.load(std::memory_order_acquire) == number && entry.stream.load() == stream)
      return kernel;
  }
  return nullptr;
}

json::Writer describe(const std::string& error) {
  uint64_t end = ring.next.load(std::memory_order_acquire), first = end > kept ? end - kept : 0;
  json::Writer json;
  json.begin_object().key(key::launches).begin_array();
  for (uint64_t number = first; number < end; ++number) {
    Entry& entry = ring.entries[number % kept];
    if (entry.number.load(std::memory_order_acquire) != number + 1) continue;
    const Kernel* kernel = entry.kernel.load();
    uint64_t xy = entry.grid_xy.load(), zx = entry.grid_z_block_x.load(), yz = entry.block_yz.load();
    auto stream = reinterpret_cast<uintptr_t>(entry.stream.load());
    if (entry.number.load(std::memory_order_acquire) != number + 1) continue;
    json.begin_object().field(key::kernel, kernel->demangled);
    json.key(key::grid).begin_array().value(xy >> 32).value(xy & UINT32_MAX).value(zx >> 32).end();
    json.key(key::block).begin_array().value(zx & UINT32_MAX).value(yz >> 32).value(yz & UINT32_MAX).end();
    json.field(key::stream, address_text(stream)).field(key::index, number).end();
  }
  json.end().field(key::error, error).end();
  return json;
}

void reset() noexcept {
  for (Entry& entry : ring.entries) entry.number.store(0);
  ring.next.store(0);
}

}  // namespace kerncap::last_launches
