// CUPTI's activity records, by the places of the few fields that are read.
//
// The records of kernels grow with each version, at their end: these fields lie where they are in
// CUpti_ActivityKernel4 (CUDA 9; the graph's node in CUpti_ActivityKernel7, CUDA 11.2) and in all up to
// CUpti_ActivityKernel13 (CUDA 13.5). Source:
// cupti_activity.h and cupti_activity_deprecated.h of CUPTI 12.4, 12.9 and 13.5.
#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "common/engine.h"
#include "common/glibc_floor.h"
#include "cuda/activity.h"

namespace kerncap::cuda::activity {
namespace {

namespace at {
constexpr size_t start = 16, end = 24, context = 44, stream = 48, grid = 52, block = 64, correlation = 92,
                 name = 104, graph_node = 144;
}

template <typename T>
T read(const uint8_t* record, size_t at) noexcept {
  T value;
  std::memcpy(&value, record + at, sizeof value);
  return value;
}

Dim3 read_dim(const uint8_t* record, size_t at) noexcept {
  return {read<uint32_t>(record, at), read<uint32_t>(record, at + 4), read<uint32_t>(record, at + 8)};
}

void add_time(Rows& rows, const uint8_t* record) {
  uint64_t start = read<uint64_t>(record, at::start), end = read<uint64_t>(record, at::end);
  const char* name = read<const char*>(record, at::name);
  if (start == 0 || end <= start || name == nullptr) return;  // no time could be had
  KernelLooks looks;
  looks.name = name;
  looks.grid = read_dim(record, at::grid);
  looks.block = read_dim(record, at::block);
  // A graph's kernels run on the streams that CUPTI likes: where a row is one of a graph, its stream is 0.
  if (read<uint64_t>(record, at::graph_node) == 0)
    looks.stream = uint64_t{read<uint32_t>(record, at::context)} << 32 | read<uint32_t>(record, at::stream);
  rows.add_time(looks, end - start);
}

}  // namespace

void read_buffer(const Cupti& cupti, uint8_t* buffer, size_t valid) noexcept try {
  Engine* known = engine();
  if (known == nullptr) return;
  std::vector<const uint8_t*> kernels;
  uint8_t* record = nullptr;
  while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == 0 && record != nullptr)
    if (read<int32_t>(record, 0) == kind_concurrent_kernel) kernels.push_back(record);
  // Correlations are given to calls in their order; records come as kernels end.
  std::stable_sort(kernels.begin(), kernels.end(), [](const uint8_t* a, const uint8_t* b) {
    return read<uint32_t>(a, at::correlation) < read<uint32_t>(b, at::correlation);
  });
  for (const uint8_t* kernel : kernels) add_time(known->selection.rows(), kernel);
} catch (const std::bad_alloc&) {
  // These are not timed, then.
}

}  // namespace kerncap::cuda::activity
