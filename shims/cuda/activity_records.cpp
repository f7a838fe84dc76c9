// CUPTI's activity records, by the places of the few fields that are read.
//
// The records of kernels grow with each version, at their end: these fields lie where they are in
// CUpti_ActivityKernel4 (CUDA 9; the graph's node in CUpti_ActivityKernel7, CUDA 11.2) and in all up to
// CUpti_ActivityKernel13 (CUDA 13.5). Those of copies and fills lie alike in CUpti_ActivityMemcpy and
// CUpti_ActivityMemset of all these versions. Source:
// cupti_activity.h and cupti_activity_deprecated.h of CUPTI 12.4, 12.9 and 13.5.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <vector>

#include "common/glibc_floor.h"
#include "common/process_capture.h"
#include "cuda/activity.h"

namespace kerncap::cuda::activity {
namespace {

namespace at {
constexpr size_t start = 16, end = 24, context = 44, stream = 48, grid = 52, block = 64, correlation = 92,
                 name = 104, graph_node = 144;
}
namespace at_copy {
constexpr size_t direction = 4, bytes = 8, device = 32, context = 36, stream = 40;
}

// CUpti_ActivityMemcpyKind.
constexpr const char* directions[] = {"",
                                      "host to device",
                                      "device to host",
                                      "host to array",
                                      "array to host",
                                      "array to array",
                                      "array to device",
                                      "device to array",
                                      "device to device",
                                      "host to host",
                                      "peer to peer"};

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
  // A graph's kernels run on the streams that CUPTI likes: if a row is one of a graph, its stream is 0.
  looks.ran_on = uint64_t{read<uint32_t>(record, at::context)} << 32 | read<uint32_t>(record, at::stream);
  if (read<uint64_t>(record, at::graph_node) == 0) looks.stream = looks.ran_on;
  rows.add_time(looks, on_host(start, end));
}

void add_copy(Rows& rows, const uint8_t* record, bool is_fill) {
  uint64_t start = read<uint64_t>(record, at::start), end = read<uint64_t>(record, at::end);
  if (start == 0 || end <= start) return;
  auto direction = read<uint8_t>(record, at_copy::direction);
  timeline::Thing thing{is_fill ? word::timed::fill : word::timed::copy, {}, {}, {}};
  if (!is_fill) thing.name = directions[direction < std::size(directions) ? direction : 0];
  thing.device = read<uint32_t>(record, at_copy::device);
  thing.stream = rows.stream_text(uint64_t{read<uint32_t>(record, at_copy::context)} << 32 |
                                  read<uint32_t>(record, at_copy::stream));
  timeline::add(timeline::meet(thing), on_host(start, end), read<uint64_t>(record, at_copy::bytes));
}

}  // namespace

void read_buffer(const Cupti& cupti, uint8_t* buffer, size_t valid) noexcept try {
  ProcessCapture* known = process_capture();
  if (known == nullptr) return;
  std::vector<const uint8_t*> kernels;
  uint8_t* record = nullptr;
  std::vector<const uint8_t*> copies;
  while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == 0 && record != nullptr) {
    auto kind = read<int32_t>(record, 0);
    if (kind == kind_concurrent_kernel) kernels.push_back(record);
    if (kind == kind_memcpy || kind == kind_memset) copies.push_back(record);
  }
  // Correlations are given to calls in their order; records come as kernels end.
  std::stable_sort(kernels.begin(), kernels.end(), [](const uint8_t* a, const uint8_t* b) {
    return read<uint32_t>(a, at::correlation) < read<uint32_t>(b, at::correlation);
  });
  for (const uint8_t* kernel : kernels) add_time(known->selection.rows(), kernel);
  for (const uint8_t* copy : copies)
    add_copy(known->selection.rows(), copy, read<int32_t>(copy, 0) == kind_memset);
} catch (const std::bad_alloc&) {
  // These are not timed, then.
}

}  // namespace kerncap::cuda::activity
