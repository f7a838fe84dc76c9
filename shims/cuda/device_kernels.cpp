// Our own kernels: fingerprints and the search for pointers, at the speed of the device's memory.
#include <algorithm>
#include <cstddef>

#include "cuda/device.h"
#include "cuda/kernels/snapshot_ptx.h"

namespace kerncap::cuda {
namespace {

constexpr unsigned threads = 256;  // as the kernels were written for
constexpr size_t max_scratch = 64U << 20, first_scratch = 4U << 20;
constexpr size_t print_bytes = 3 * sizeof(uint64_t);
constexpr uint64_t chunks_at_once = first_scratch / print_bytes;
constexpr unsigned scan_blocks = 2048;
constexpr uint64_t disturbance_bytes = 512U << 10;  // a thousand blocks, more than fit at once

}  // namespace

bool CudaDevice::has_kernels(int device) {
  Lane* own = lane(device);
  if (own == nullptr) return false;
  if (!own->kernels_tried) {
    own->kernels_tried = true;
    InContext in(own->context);
    if (!load_kernels(*own)) own->fingerprint = own->scan = own->copy = nullptr;
  }
  return own->scan != nullptr;
}

bool CudaDevice::has_loaded(int device) {
  Lane* own = lane(device);
  return own != nullptr && own->kernels_tried;
}

bool CudaDevice::load_kernels(Lane& lane) {
  const Driver& d = *driver();
  return d.cuModuleLoadData(&lane.module, snapshot_ptx) == CUDA_SUCCESS &&
         d.cuModuleGetFunction(&lane.fingerprint, lane.module, "kerncap_fingerprint") == CUDA_SUCCESS &&
         d.cuModuleGetFunction(&lane.scan, lane.module, "kerncap_scan") == CUDA_SUCCESS &&
         d.cuModuleGetFunction(&lane.copy, lane.module, "kerncap_copy") == CUDA_SUCCESS &&
         need_scratch(lane, first_scratch);
}

bool CudaDevice::need_scratch(Lane& lane, size_t size) {
  if (lane.scratch_bytes >= size) return true;
  if (size > max_scratch || is_stopped_) return false;
  const Driver& d = *driver();
  if (lane.scratch != 0) d.cuMemFree_v2(lane.scratch);  // all is idle, so it does not wait
  lane.scratch = 0;
  lane.scratch_bytes = 0;
  if (!good(d.cuMemAlloc_v2(&lane.scratch, size))) return false;
  lane.scratch_bytes = size;
  return true;
}

// Ranges share the scratch until it is full, so that many small ones wait for the device once.
bool CudaDevice::fingerprints(int device, const std::vector<PrintRange>& ranges, uint32_t chunk) {
  static_assert(sizeof(Fingerprint) == print_bytes, "as the kernel writes them");
  Lane* own = lane(device);
  if (own == nullptr || own->fingerprint == nullptr) return false;
  InContext in(own->context);
  struct Part {
    Fingerprint* out;
    uint64_t count;
  };
  std::vector<Part> parts;
  uint64_t used = 0, chunk_bytes = chunk;
  std::vector<Fingerprint> prints;
  auto flush = [&] {
    prints.resize(used);
    if (used > 0 && !download(*own, prints.data(), own->scratch, used * print_bytes)) return false;
    uint64_t at = 0;
    for (const Part& part : parts) {
      std::copy_n(prints.begin() + static_cast<ptrdiff_t>(at), part.count, part.out);
      at += part.count;
    }
    parts.clear();
    used = 0;
    return true;
  };
  for (const PrintRange& range : ranges) {
    uint64_t count = (range.size + chunk - 1) / chunk, address = range.address, size = range.size;
    for (uint64_t first = 0; first < count;) {
      uint64_t now = std::min(count - first, chunks_at_once - used);
      CUdeviceptr out = own->scratch + used * print_bytes;
      void* arguments[] = {&address, &size, &chunk_bytes, &first, &out};
      if (!good(driver()->cuLaunchKernel(own->fingerprint, static_cast<unsigned>(now), 1, 1, threads, 1, 1, 0,
                                         own->stream, arguments, nullptr)))
        return false;
      parts.push_back({range.out + first, now});
      used += now;
      first += now;
      if (used == chunks_at_once && !flush()) return false;
    }
  }
  return flush();
}

// Other work on the device: our own kernel over the scratch, a few thousand small blocks at a time.
void CudaDevice::disturb(unsigned round) noexcept {
  auto found = lanes_.find(launch_device_);
  if (found == lanes_.end() || found->second.fingerprint == nullptr) return;
  Lane& own = found->second;
  uint64_t size = disturbance_bytes, chunk_bytes = 512U << (round % 3), first = 0;
  CUdeviceptr out = own.scratch + size;
  void* arguments[] = {&own.scratch, &size, &chunk_bytes, &first, &out};
  for (unsigned i = 0; i < 6 + 3 * (round % 3); ++i)
    driver()->cuLaunchKernel(own.fingerprint, static_cast<unsigned>(size / chunk_bytes), 1, 1, threads, 1, 1,
                             0, own.stream, arguments, nullptr);
}

// The scratch holds the table, then for each interval the smallest source address.
bool CudaDevice::begin_scan(int device, const std::vector<Interval>& table) {
  static_assert(sizeof(Interval) == 2 * sizeof(uint64_t), "as the kernel reads them");
  Lane* own = lane(device);
  if (own == nullptr || own->scan == nullptr || table.empty()) return false;
  InContext in(own->context);
  size_t table_bytes = table.size() * sizeof(Interval), source_bytes = table.size() * sizeof(uint64_t);
  if (!need_scratch(*own, table_bytes + source_bytes)) return false;
  own->intervals = table.size();
  const Driver& d = *driver();
  return upload(*own, own->scratch, table.data(), table_bytes) &&
         good(d.cuMemsetD8Async(own->scratch + table_bytes, 0xFF, source_bytes, own->stream));
}

bool CudaDevice::scan(int device, uint64_t address, uint64_t words) {
  Lane* own = lane(device);
  if (own == nullptr) return false;
  InContext in(own->context);
  uint64_t intervals = own->intervals;
  CUdeviceptr sources = own->scratch + intervals * sizeof(Interval);
  auto blocks = static_cast<unsigned>(std::min<uint64_t>((words + threads - 1) / threads, scan_blocks));
  void* arguments[] = {&address, &words, &own->scratch, &intervals, &sources};
  return good(
      driver()->cuLaunchKernel(own->scan, blocks, 1, 1, threads, 1, 1, 0, own->stream, arguments, nullptr));
}

bool CudaDevice::end_scan(int device, std::vector<uint64_t>* sources) {
  Lane* own = lane(device);
  if (own == nullptr) return false;
  InContext in(own->context);
  sources->resize(own->intervals);
  return download(*own, sources->data(), own->scratch + own->intervals * sizeof(Interval),
                  own->intervals * sizeof(uint64_t));
}

}  // namespace kerncap::cuda
