#include "common/host_scan.h"

#include <algorithm>
#include <cstring>

#include "common/writer_pool.h"

namespace kerncap {
namespace {

class Scan : public Pieces {
 public:
  Scan(const std::vector<Interval>& table, const std::vector<ScanRange>& ranges, HostSources* sources)
      : table_(table), ranges_(ranges), sources_(*sources) {}

  bool next(Piece* piece) override {
    while (range_ < ranges_.size() && word_ >= ranges_[range_].words) {
      ++range_;
      word_ = 0;
    }
    if (range_ >= ranges_.size()) return false;
    const ScanRange& range = ranges_[range_];
    uint64_t words = std::min<uint64_t>(range.words - word_, Device::buffer_bytes / 8);
    piece->address = range.address + word_ * 8;
    piece->size = static_cast<uint32_t>(words * 8);
    piece->device = range.device;
    piece->direct = range.is_host;
    word_ += words;
    return true;
  }

  bool work(const Piece& piece, const uint8_t* bytes) noexcept override {
    if (table_.empty()) return true;
    uint64_t lowest = table_.front().base, span = table_.back().end - lowest;
    for (uint32_t at = 0; at + 8 <= piece.size; at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes + at, 8);
      if (word - lowest >= span) continue;  // most words are no pointers
      size_t found = find_interval(table_, word);
      if (found < table_.size()) sources_.lower(found, piece.address + at);
    }
    return true;
  }

 private:
  const std::vector<Interval>& table_;
  const std::vector<ScanRange>& ranges_;
  HostSources& sources_;
  size_t range_ = 0;
  uint64_t word_ = 0;
};

}  // namespace

bool host_scan(Device& device, const std::vector<Interval>& table, const std::vector<ScanRange>& ranges,
               HostSources* sources, std::string* why) {
  Scan scan(table, ranges, sources);
  if (pump(device, scan, nullptr, why)) return true;
  *why = "looking for pointers: " + *why;
  return false;
}

}  // namespace kerncap
