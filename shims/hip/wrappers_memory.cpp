// Memory: what comes and goes of it. An allocation hurts no capture. Frees wait at the gate, but for memory
// that is younger than the launch that is captured: HIP allocates and frees for a kernel's `new` and
// `delete`, which wait for it.
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/memory_map.h"
#include "hip/agents.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

uint64_t address_of(const void* memory) noexcept {
  return reinterpret_cast<uint64_t>(memory);
}

void add(uint64_t base, size_t size, RegionKind kind, int device, const char* how) noexcept {
  Allocation allocation;
  allocation.base = base;
  allocation.size = size;
  allocation.kind = kind;
  allocation.device = device;
  allocation.how = how;
  MemoryMap::instance().add(allocation);
}

// Memory of a pool: a GPU's own, or the host's.
void add_owned(const void* memory, size_t size, int owner, const char* how) noexcept {
  add(address_of(memory), size, owner < 0 ? RegionKind::host : RegionKind::device, owner, how);
}

bool ask(const void* memory, PointerInfo* info) noexcept {
  gate::Own own;
  *info = PointerInfo();
  info->size = sizeof *info;
  const Hsa& next = real();
  return next.hsa_amd_pointer_info != nullptr &&
         next.hsa_amd_pointer_info(memory, info, nullptr, nullptr, nullptr) == constant::success &&
         info->type != constant::pointer_unknown;
}

// Calls the runtime's free with the allocation out of the map already; puts it back if it was refused.
template <typename Call>
Status free_gated(const void* memory, Call&& call) noexcept {
  MemoryMap& map = MemoryMap::instance();
  Allocation known;
  uint64_t base = address_of(memory);
  auto freed = [&](bool removed) {
    Status status = call();
    if (status != constant::success && removed) map.add(known);
    return status;
  };
  if (map.remove_added_since(base, &known)) return freed(true);
  gate::Pass pass;
  return freed(map.find(base, &known) && known.base == base && map.remove(base));
}

// Locked memory by the host's address, where devices know it by another one.
struct Aliases {
  std::mutex mutex;
  std::map<uint64_t, uint64_t> on_device;
};

Aliases& aliases() noexcept {
  static auto* instance = new Aliases;
  return *instance;
}

Status locked(Status status, const void* host, size_t size, const Agent* agents, int count,
              void* const* memory, const char* how) noexcept {
  if (status != constant::success || host == nullptr) return status;
  uint64_t base = address_of(host), seen = memory != nullptr ? address_of(*memory) : base;
  if (seen == base || seen == 0) {
    add(base, size, RegionKind::host, -1, how);
    return status;
  }
  // A kernel is given the device's address, where this process finds nothing: copies read it.
  int device = agents != nullptr && count > 0 ? ordinal_of(agents[0]) : 0;
  add(seen, size, RegionKind::managed, device < 0 ? 0 : device, how);
  try {
    std::lock_guard<std::mutex> lock(aliases().mutex);
    aliases().on_device[base] = seen;
  } catch (const std::bad_alloc&) {
    // It stays in the map; the runtime is asked before it is read.
  }
  return status;
}

int device_of_handle(VmemHandle handle) noexcept {
  gate::Own own;
  Pool pool{};
  int type = 0;
  const Hsa& next = real();
  if (next.hsa_amd_vmem_get_alloc_properties_from_handle == nullptr ||
      next.hsa_amd_vmem_get_alloc_properties_from_handle(handle, &pool, &type) != constant::success)
    return 0;
  return ordinal_of_pool(pool);
}

}  // namespace

Status wrap::hsa_memory_allocate(Region region, size_t size, void** memory) noexcept {
  Status status = real().hsa_memory_allocate(region, size, memory);
  PointerInfo info;
  if (status == constant::success && memory != nullptr && ask(*memory, &info))
    add_owned(*memory, size, ordinal_of(info.agentOwner), "hsa_memory_allocate");
  return status;
}

Status wrap::hsa_memory_free(void* memory) noexcept {
  return free_gated(memory, [&] { return real().hsa_memory_free(memory); });
}

Status wrap::hsa_amd_memory_pool_allocate(Pool pool, size_t size, uint32_t flags, void** memory) noexcept {
  Status status = real().hsa_amd_memory_pool_allocate(pool, size, flags, memory);
  if (status == constant::success && memory != nullptr)
    add_owned(*memory, size, ordinal_of_pool(pool), "hsa_amd_memory_pool_allocate");
  return status;
}

Status wrap::hsa_amd_memory_pool_free(void* memory) noexcept {
  return free_gated(memory, [&] { return real().hsa_amd_memory_pool_free(memory); });
}

Status wrap::hsa_amd_memory_lock(void* host, size_t size, Agent* agents, int count, void** memory) noexcept {
  return locked(real().hsa_amd_memory_lock(host, size, agents, count, memory), host, size, agents, count,
                memory, "hsa_amd_memory_lock");
}

Status wrap::hsa_amd_memory_lock_to_pool(void* host, size_t size, Agent* agents, int count, Pool pool,
                                         uint32_t flags, void** memory) noexcept {
  return locked(real().hsa_amd_memory_lock_to_pool(host, size, agents, count, pool, flags, memory), host,
                size, agents, count, memory, "hsa_amd_memory_lock_to_pool");
}

Status wrap::hsa_amd_memory_unlock(void* host) noexcept {
  uint64_t seen = address_of(host);
  {
    std::lock_guard<std::mutex> lock(aliases().mutex);
    auto found = aliases().on_device.find(seen);
    if (found != aliases().on_device.end()) {
      seen = found->second;
      aliases().on_device.erase(found);
    }
  }
  return free_gated(reinterpret_cast<void*>(seen), [&] { return real().hsa_amd_memory_unlock(host); });
}

Status wrap::hsa_amd_ipc_memory_attach(const IpcMemory* handle, size_t size, uint32_t count,
                                       const Agent* agents, void** memory) noexcept {
  Status status = real().hsa_amd_ipc_memory_attach(handle, size, count, agents, memory);
  PointerInfo info;
  if (status == constant::success && memory != nullptr && ask(*memory, &info))
    add_owned(*memory, size, ordinal_of(info.agentOwner), "hsa_amd_ipc_memory_attach");
  return status;
}

Status wrap::hsa_amd_ipc_memory_detach(void* memory) noexcept {
  return free_gated(memory, [&] { return real().hsa_amd_ipc_memory_detach(memory); });
}

Status wrap::hsa_amd_vmem_map(void* address, size_t size, size_t offset, VmemHandle handle,
                              uint64_t flags) noexcept {
  Status status = real().hsa_amd_vmem_map(address, size, offset, handle, flags);
  if (status == constant::success) add_owned(address, size, device_of_handle(handle), "hsa_amd_vmem_map");
  return status;
}

Status wrap::hsa_amd_vmem_unmap(void* address, size_t size) noexcept {
  gate::Pass pass;
  Status status = real().hsa_amd_vmem_unmap(address, size);
  if (status == constant::success) MemoryMap::instance().remove_range(address_of(address), size);
  return status;
}

// Memory that host and devices share (hipMallocManaged): there is no allocation to see, only this. It
// ends with the mapping, which is_readable() asks about.
Status wrap::hsa_amd_svm_attributes_set(void* address, size_t size, SvmAttribute* attributes,
                                        size_t count) noexcept {
  Status status = real().hsa_amd_svm_attributes_set(address, size, attributes, count);
  if (status != constant::success || attributes == nullptr) return status;
  for (size_t i = 0; i < count; ++i) {
    uint64_t what = attributes[i].attribute;
    if (what != constant::svm_agent_accessible && what != constant::svm_agent_accessible_in_place) continue;
    int device = ordinal_of({attributes[i].value});
    if (device < 0) continue;
    add(address_of(address), size, RegionKind::managed, device, "hsa_amd_svm_attributes_set");
    break;
  }
  return status;
}

}  // namespace kerncap::hip
