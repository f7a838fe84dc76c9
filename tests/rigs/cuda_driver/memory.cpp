#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rig {

namespace {

uint64_t up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Straight to the kernel: what a sanitizer does around mmap would touch the shadow of 256 GiB.
void* map_at(uint64_t address, uint64_t size, int protection, int flags, int fd = -1, off_t offset = 0) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}

void reserve_range(uint64_t base, uint64_t size) {
  void* got =
      map_at(base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE);
  if (got == reinterpret_cast<void*>(base)) return;
  std::fprintf(stderr, "rig: the address range 0x%llx is taken in this process\n",
               static_cast<unsigned long long>(base));
  std::abort();
}

}  // namespace

void RangeSet::add(uint64_t base, uint64_t size) {
  if (!size) return;
  auto next = ranges_.lower_bound(base);
  if (next != ranges_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == base) {
      base = before->first;
      size += before->second;
      ranges_.erase(before);
    }
  }
  if (next != ranges_.end() && base + size == next->first) {
    size += next->second;
    ranges_.erase(next);
  }
  ranges_[base] = size;
}

bool RangeSet::whole(uint64_t base, uint64_t size) const {
  auto found = ranges_.upper_bound(base);
  if (found == ranges_.begin()) return false;
  --found;
  return base + size <= found->first + found->second;
}

bool RangeSet::take_at(uint64_t base, uint64_t size) {
  if (!whole(base, size)) return false;
  auto found = std::prev(ranges_.upper_bound(base));
  uint64_t begin = found->first, end = begin + found->second;
  ranges_.erase(found);
  if (begin < base) ranges_[begin] = base - begin;
  if (base + size < end) ranges_[base + size] = end - base - size;
  return true;
}

uint64_t RangeSet::take(uint64_t size, uint64_t alignment, uint64_t from) {
  for (uint64_t lowest : {from, uint64_t{0}}) {
    for (const auto& [base, length] : ranges_) {
      uint64_t place = up(std::max(base, lowest), alignment);
      if (place + size <= base + length) {
        take_at(place, size);
        return place;
      }
    }
  }
  return 0;
}

void map_alias(uint64_t base, uint64_t size) {
  map_at(reinterpret_cast<uint64_t>(alias_of(base)), size, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED);
}

void unmap_alias(uint64_t base, uint64_t size) {
  map_at(reinterpret_cast<uint64_t>(alias_of(base)), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED);
}

void garbage(void* where, size_t bytes, uint64_t seed) {
  // Enough that nobody can rely on zeros; filling gigabytes would only cost time.
  constexpr size_t kMost = 64u << 20;
  auto* bytes_out = static_cast<uint8_t*>(where);
  size_t count = std::min(bytes, kMost);
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 0xda3e39cb94b95bdbull;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    x += 0xbf58476d1ce4e5b9ull;
    uint64_t odd = x | 0x8000000000000000ull;  // never looks like an address
    std::memcpy(bytes_out + i, &odd, 8);
  }
  for (; i < count; ++i) bytes_out[i] = 0xA5;
}

Memory& Memory::instance() {
  static Memory* memory = new Memory;
  return *memory;
}

Memory::Memory() {
  reserve_range(kArena, kArenaBytes);
  reserve_range(kAlias, kArenaBytes);
  arena_.add(kArena, kArenaBytes);
  // Each process begins somewhere else, as with address randomisation.
  uint32_t seed = 0;
  if (const char* fixed = std::getenv("KERNCAP_RIG_SEED"))
    seed = static_cast<uint32_t>(std::strtoul(fixed, nullptr, 0));
  else if (syscall(SYS_getrandom, &seed, sizeof seed, 0) != sizeof seed)
    seed = static_cast<uint32_t>(getpid());
  start_ = kArena + (seed % (kArenaBytes / kHintGranule * 3 / 4)) * kHintGranule;
  if (const char* taken = std::getenv("KERNCAP_RIG_TAKEN")) {
    // "address:size,…": another owner's; never given out.
    for (char* at = const_cast<char*>(taken); *at;) {
      uint64_t base = std::strtoull(at, &at, 0), size = kGranule;
      if (*at == ':') size = std::strtoull(at + 1, &at, 0);
      if (*at == ',')
        ++at;
      else if (*at)
        break;
      uint64_t begin = base / kGranule * kGranule;
      if (in_arena(begin)) arena_.take_at(begin, up(base + size, kGranule) - begin);
    }
  }
}

unsigned long long Memory::next_id() {
  std::lock_guard<std::mutex> lock(mutex_);
  return next_id_++;
}

uint64_t Memory::reserve(uint64_t size, uint64_t alignment, uint64_t hint) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (hint) {
    uint64_t place = up(hint, kHintGranule);
    if (in_arena(place) && arena_.take_at(place, size)) return place;
  }
  return arena_.take(size, std::max(alignment, kGranule), start_);
}

void Memory::release(uint64_t base, uint64_t size) {
  unmap_alias(base, size);
  map_at(base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED);
  std::lock_guard<std::mutex> lock(mutex_);
  arena_.add(base, size);
}

bool Memory::charge(int device, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  long long limit = faults().oom_after.load();
  if (limit >= 0 && total_charged_ + bytes > static_cast<unsigned long long>(limit)) return false;
  if (used_[device] + bytes > static_cast<unsigned long long>(faults().device_bytes.load())) return false;
  used_[device] += bytes;
  total_charged_ += bytes;
  return true;
}

void Memory::refund(int device, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_[device] -= std::min(used_[device], bytes);
}

size_t Memory::used(int device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

// Module globals have slabs of their own, as with the real driver.
uint64_t Memory::place_small(const Allocation& allocation) {
  uint64_t size = up(allocation.size, 512);
  bool global = allocation.kind == Kind::global;
  for (auto& [base, slab] : slabs_) {
    if (slab.context != allocation.context || slab.global != global) continue;
    if (uint64_t place = slab.free.take(size, 512)) return place;
  }
  uint64_t base = arena_.take(kGranule, kGranule, start_);
  if (!base) return 0;
  map_alias(base, kGranule);
  garbage(alias_of(base), kGranule, base >> 9);
  Slab& slab = slabs_[base];
  slab.free.add(base, kGranule);
  slab.device = allocation.device;
  slab.context = allocation.context;
  slab.global = global;
  return slab.free.take(size, 512);
}

CUresult Memory::allocate(Allocation* allocation) {
  if (!allocation->size) return CUDA_ERROR_INVALID_VALUE;
  if (!charge(allocation->device, allocation->size)) return CUDA_ERROR_OUT_OF_MEMORY;
  bool managed = allocation->kind == Kind::managed;
  std::lock_guard<std::mutex> lock(mutex_);
  if (allocation->size < kSmall && !managed) {
    allocation->base = place_small(*allocation);
  } else {
    uint64_t size = up(allocation->size, kGranule);
    allocation->base = arena_.take(size, kGranule, start_);
    if (!allocation->base) return CUDA_ERROR_OUT_OF_MEMORY;
    if (managed) {
      // The host may touch it: memory at the device address itself.
      map_at(allocation->base, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED);
    } else {
      map_alias(allocation->base, size);
      garbage(alias_of(allocation->base), allocation->size, allocation->base >> 9);
    }
  }
  if (!allocation->base) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation->id = next_id_++;
  live_[allocation->base] = *allocation;
  return CUDA_SUCCESS;
}

CUresult Memory::free(CUdeviceptr base, Kind kind) {
  Allocation was;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = live_.find(base);
    if (found == live_.end() || found->second.kind != kind) return CUDA_ERROR_INVALID_VALUE;
    was = found->second;
    live_.erase(found);
    auto slab = slabs_.upper_bound(base);
    if (slab != slabs_.begin()) {
      --slab;
      if (base < slab->first + kGranule) {
        // The slab stays: its stale bytes are what the next allocation finds.
        slab->second.free.add(base, up(was.size, 512));
        used_[was.device] -= std::min(used_[was.device], was.size);
        return CUDA_SUCCESS;
      }
    }
    used_[was.device] -= std::min(used_[was.device], was.size);
  }
  release(base, up(was.size, kGranule));
  return CUDA_SUCCESS;
}

void Memory::free_of(Context* context) {
  std::vector<Allocation> gone;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [base, allocation] : live_)
      if (allocation.context == context &&
          (allocation.kind == Kind::device || allocation.kind == Kind::managed))
        gone.push_back(allocation);
  }
  for (const Allocation& allocation : gone) free(allocation.base, allocation.kind);
}

void Memory::enter(const Allocation& allocation) {
  std::lock_guard<std::mutex> lock(mutex_);
  Allocation& entry = live_[allocation.base];
  entry = allocation;
  entry.id = next_id_++;
}

bool Memory::leave(CUdeviceptr base, Kind kind, Allocation* was, unsigned long long id) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = live_.find(base);
  if (found == live_.end() || found->second.kind != kind) return false;
  if (id && found->second.id != id) return false;
  if (was) *was = found->second;
  live_.erase(found);
  return true;
}

const Allocation* Memory::covering(CUdeviceptr address) const {
  auto found = live_.upper_bound(address);
  if (found == live_.begin()) return nullptr;
  --found;
  return address - found->first < found->second.size ? &found->second : nullptr;
}

bool Memory::find(CUdeviceptr address, Allocation* found) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Allocation* covers = covering(address);
  if (covers && found) *found = *covers;
  return covers != nullptr;
}

// Neighbouring mappings of virtual memory management count as one range.
bool Memory::is_live(CUdeviceptr address, size_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (uint64_t at = address, end = address + std::max<size_t>(bytes, 1); at < end;) {
    const Allocation* covers = covering(at);
    if (!covers || !covers->accessible) return false;
    at = covers->base + covers->size;
  }
  return true;
}

std::vector<Allocation> Memory::within(uint64_t base, uint64_t size) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Allocation> found;
  for (auto at = live_.lower_bound(base); at != live_.end() && at->first < base + size; ++at)
    found.push_back(at->second);
  return found;
}

void Memory::update(CUdeviceptr base, const std::function<void(Allocation&)>& change) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = live_.find(base);
  if (found != live_.end()) change(found->second);
}

void* Memory::host(CUdeviceptr address, size_t bytes) const {
  if (!is_live(address, bytes)) return nullptr;
  Allocation found;
  if (!find(address, &found)) return nullptr;
  if (found.is_host() || found.kind == Kind::managed) return reinterpret_cast<void*>(address);
  return alias_of(address);
}

}  // namespace rig
