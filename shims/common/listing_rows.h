// With --list: the launches of each kernel by how they were launched, and their times.
//
// A row is named by its number, which marks carry. Guarded by a lock of its
// own that is held across no call: times also come in on threads of a vendor's profiler.
#ifndef KERNCAP_COMMON_LISTING_ROWS_H
#define KERNCAP_COMMON_LISTING_ROWS_H

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/json.h"
#include "common/launch.h"
#include "common/nvtx_ranges.h"
#include "common/timeline.h"

namespace kerncap {

struct Times {
  uint64_t sum_ns = 0, timed = 0, min_ns = 0, max_ns = 0;
  void add(uint64_t time_ns);
  void add(const Times& other);
  void write(json::Writer& json) const;  // time_ns, timed, min_ns, max_ns of an open object
};

using RowNumber = uint64_t;  // from 1; 0: none

// What a profiler tells of a kernel that ran. `stream`: its own number for context and stream; 0: any, as of
// a graph's kernels, whose streams (`ran_on`) are the profiler's choice.
struct KernelLooks {
  std::string_view name;
  Dim3 grid, block;
  uint64_t stream = 0, ran_on = 0;
};

class Rows {
 public:
  static constexpr size_t most_of_a_kernel = 1024, most = 8192, most_launches = 1U << 20;

  // One launch more; the number of its row. `owner` stands for all kernels of one name.
  RowNumber count(const void* owner, const Launch& launch, ranges::Path range, const std::string& config);
  void add_time(RowNumber row, const Span& span);
  // Of kernels told by their looks, in the order of their launches: of rows that look alike each gets the
  // times of its own launches. Only if a profiler says them; `keep_order` before the first.
  void keep_order() { keeps_order_.store(true); }
  void add_time(const KernelLooks& looks, const Span& span);
  // Of a stream by a profiler's number.
  std::string stream_text(uint64_t number);

  // The kernel's rows as "rows", and its times.
  void write(const void* owner, json::Writer& json);
  void reset_after_fork() noexcept;

 private:
  // All of a row's identity in plain bytes, no padding between.
  struct Key {
    const void* owner;
    void* stream;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, range, config, route;
    int32_t device;
    uint32_t rest;
    int64_t graph;
    bool operator==(const Key& other) const noexcept;
  };
  struct Hash {
    size_t operator()(const Key& key) const noexcept;
  };
  // Rows whose launches a profiler can't tell apart, and which of them each launch was that has no time yet.
  struct Alike {
    std::vector<RowNumber> rows;
    std::deque<RowNumber> launched;
  };
  using LookKey = std::array<uint32_t, 9>;
  struct LookHash {
    size_t operator()(const LookKey& key) const noexcept;
  };
  struct Row {
    Key key;
    const Kernel* kernel;
    LookKey looks;
    uint64_t launches = 0;
    Times times;
    std::map<uint64_t, timeline::ThingNumber> things;  // by the profiler's stream; 0: the row's own
  };

  uint32_t text_number(const std::string& text);
  static LookKey look_key(uint32_t name, const uint32_t* grid, const uint32_t* block, uint64_t stream);
  bool find_row(const Key& key, RowNumber* number);
  RowNumber add_row(Key key, const Kernel* kernel, uint64_t stream);
  void note_launch(RowNumber number);
  void write_row(const Row& row, json::Writer& json);
  void add_time_locked(Row& row, const Span& span, uint64_t ran_on);
  std::string stream_text_locked(uint64_t number);

  std::mutex mutex_;
  std::deque<Row> rows_;
  std::unordered_map<Key, RowNumber, Hash> numbers_;
  std::unordered_map<const void*, std::vector<RowNumber>> by_owner_;
  std::unordered_map<LookKey, Alike, LookHash> alike_;
  std::atomic<bool> keeps_order_{false};
  std::map<std::string, uint32_t> text_numbers_;
  std::vector<const std::string*> texts_;
  std::map<uint64_t, void*> streams_;  // by the profiler's number
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_LISTING_ROWS_H
