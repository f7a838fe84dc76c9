// Looks for pointers with the processor: what a device can't scan itself.
#ifndef KERNCAP_COMMON_HOST_SCAN_H
#define KERNCAP_COMMON_HOST_SCAN_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/device.h"

namespace kerncap {

struct ScanRange {
  uint64_t address = 0, words = 0;
  int device = 0;
  bool is_host = false;
};

// For each interval the smallest address of a word that leads into it.
class HostSources {
 public:
  static constexpr uint64_t none = UINT64_MAX;
  void assign(size_t count) {
    count_ = count;
    sources_.reset(new std::atomic<uint64_t>[count]);
    for (size_t i = 0; i < count; ++i) sources_[i].store(none, std::memory_order_relaxed);
  }
  uint64_t at(size_t i) const { return sources_[i].load(std::memory_order_relaxed); }
  void lower(size_t i, uint64_t address) noexcept {
    uint64_t old = sources_[i].load(std::memory_order_relaxed);
    while (address < old && !sources_[i].compare_exchange_weak(old, address, std::memory_order_relaxed)) {
    }
  }

 private:
  size_t count_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> sources_;
};

// The interval of a sorted, disjoint table that holds `address`; its size if none does. An address
// one past the end is in none.
inline size_t find_interval(const std::vector<Interval>& table, uint64_t address) noexcept {
  size_t low = 0, high = table.size();
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low < table.size() && table[low].base <= address ? low : table.size();
}

bool host_scan(Device& device, const std::vector<Interval>& table, const std::vector<ScanRange>& ranges,
               HostSources* sources, std::string* why);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_HOST_SCAN_H
