// Stream-ordered allocation: memory that is free again once the stream has come to the free, and that
// the same stream may get back at once.
#include <algorithm>

#include "memory.h"

namespace rig {

struct FreeBlock {
  uint64_t base;
  size_t size;
  Stream* stream;
  OpPtr op;  // of its free
};

struct Pool {
  Magic magic = Magic::pool;
  int device = 0;
  bool gone = false;
  RangeSet space;
  std::map<uint64_t, size_t> segments;
  std::vector<FreeBlock> freed;
  uint64_t release_threshold = 0;
  size_t used = 0, used_high = 0, reserved = 0;
};

namespace {

std::map<int, Pool*> default_pools, current_pools;  // under State::mutex
constexpr size_t kSegment = 32u << 20;

Pool* default_pool(int device) {
  Pool*& pool = default_pools[device];
  if (!pool) {
    pool = new Pool;
    pool->device = device;
  }
  return pool;
}

Pool* pool_of(CUmemoryPool handle) {
  auto* pool = as<Pool>(handle, Magic::pool);
  return pool && !pool->gone ? pool : nullptr;
}

// A freed block of the same size: of the same stream at once, of another only when its free has run.
uint64_t reuse(Pool* pool, size_t size, Stream* stream) {
  for (size_t i = 0; i < pool->freed.size(); ++i) {
    FreeBlock& block = pool->freed[i];
    if (block.size != size || !(block.stream == stream || !block.op || block.op->done)) continue;
    uint64_t base = block.base;
    pool->freed.erase(pool->freed.begin() + static_cast<long>(i));
    return base;
  }
  return 0;
}

void collect(Pool* pool) {
  auto done = [&](const FreeBlock& block) {
    if (block.op && !block.op->done) return false;
    pool->space.add(block.base, block.size);
    return true;
  };
  pool->freed.erase(std::remove_if(pool->freed.begin(), pool->freed.end(), done), pool->freed.end());
}

// State::mutex held.
uint64_t place(Pool* pool, size_t size) {
  if (uint64_t base = pool->space.take(size, 512)) return base;
  collect(pool);
  if (uint64_t base = pool->space.take(size, 512)) return base;
  size_t segment = (size + kSegment - 1) / kSegment * kSegment;
  if (!Memory::instance().charge(pool->device, segment)) return 0;
  uint64_t base = Memory::instance().reserve(segment, kGranule, 0);
  if (!base) return 0;
  map_alias(base, segment);
  garbage(alias_of(base), segment, base >> 9);
  pool->segments[base] = segment;
  pool->reserved += segment;
  pool->space.add(base, segment);
  return pool->space.take(size, 512);
}

void trim(Pool* pool, size_t keep) {
  collect(pool);
  for (auto at = pool->segments.begin(); at != pool->segments.end();) {
    if (pool->reserved <= keep || !pool->space.take_at(at->first, at->second)) {
      ++at;
      continue;
    }
    pool->reserved -= at->second;
    Memory::instance().refund(pool->device, at->second);
    Memory::instance().release(at->first, at->second);
    at = pool->segments.erase(at);
  }
}

CUresult allocate(CUdeviceptr* out, size_t bytes, Pool* pool, CUstream handle) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!pool)
    pool =
        current_pools.count(context->device) ? current_pools[context->device] : default_pool(context->device);
  size_t size = (bytes + 511) / 512 * 512;
  uint64_t base = stream->capture ? 0 : reuse(pool, size, stream);
  if (!base) base = place(pool, size);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.base = base;
  allocation.size = bytes;
  allocation.kind = Kind::pooled;
  allocation.device = pool->device;
  allocation.context = context;
  allocation.pool = pool;
  Memory::instance().enter(allocation);
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  *out = base;
  if (!stream->capture) return CUDA_SUCCESS;
  Work work;  // a graph's allocation keeps its address
  work.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  work.pointer = base;
  return capture_work(stream, work);
}

CUresult free_later(CUdeviceptr base, CUstream handle) {
  Context* context = nullptr;
  if (CUresult error = enter(&context)) return error;
  Stream* stream = nullptr;
  if (CUresult error = stream_of(handle, context, &stream)) return error;
  Allocation found;
  Memory& memory = Memory::instance();
  if (!memory.find(base, &found) || found.base != base) return CUDA_ERROR_INVALID_VALUE;
  if (found.kind == Kind::device) return cuMemFree_v2(base);
  if (found.kind != Kind::pooled || found.freeing) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (stream->capture) {
    Work work;
    work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    work.pointer = base;
    return capture_work(stream, work);
  }
  memory.update(base, [](Allocation& a) { a.freeing = true; });
  unsigned long long id = found.id;
  Work work;
  // The address may have a new life by then: only this one ends.
  work.other = [base, id] {
    Memory::instance().leave(base, Kind::pooled, nullptr, id);
    return CUDA_SUCCESS;
  };
  size_t size = (found.size + 511) / 512 * 512;
  found.pool->used -= size;
  OpPtr op = enqueue(stream, std::move(work));
  found.pool->freed.push_back({base, size, stream, op});
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace rig

using namespace rig;

RIG_API cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate(out, bytes, nullptr, stream);
}
RIG_API cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool handle, CUstream stream) {
  Pool* pool = pool_of(handle);
  return pool ? allocate(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}
RIG_API cuMemFreeAsync(CUdeviceptr base, CUstream stream) {
  return free_later(base, stream);
}

RIG_API cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (CUresult error = enter_without_context()) return error;
  auto* pool = new Pool;
  pool->device = properties->location.id;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}
RIG_API cuMemPoolDestroy(CUmemoryPool handle) {
  Pool* pool = pool_of(handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  pool->gone = true;  // its live allocations stay valid
  trim(pool, 0);
  return CUDA_SUCCESS;
}
RIG_API cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  Pool* pool = pool_of(handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  trim(pool, keep);
  return CUDA_SUCCESS;
}
RIG_API cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  Pool* pool = pool_of(handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    pool->release_threshold = *static_cast<uint64_t*>(value);
  return CUDA_SUCCESS;
}
RIG_API cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  Pool* pool = pool_of(handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  auto* wide = static_cast<uint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *wide = pool->release_threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *wide = pool->reserved;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *wide = pool->used;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *wide = pool->used_high;
      break;
    default:
      *static_cast<int*>(value) = 1;
  }
  return CUDA_SUCCESS;
}
RIG_API cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc*, size_t) {
  return pool_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
RIG_API cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool, CUmemLocation*) {
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}
RIG_API cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard<std::mutex> lock(state().mutex);
  *out = reinterpret_cast<CUmemoryPool>(default_pool(device));
  return CUDA_SUCCESS;
}
RIG_API cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  if (CUresult error = enter_without_context()) return error;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard<std::mutex> lock(state().mutex);
  auto found = current_pools.find(device);
  *out = reinterpret_cast<CUmemoryPool>(found != current_pools.end() ? found->second : default_pool(device));
  return CUDA_SUCCESS;
}
RIG_API cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  Pool* pool = pool_of(handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(state().mutex);
  current_pools[device] = pool;
  return CUDA_SUCCESS;
}
