// A device whose memory is the process's own, and whose failings are set by the test.
#ifndef KERNCAP_TESTS_FAKE_DEVICE_H
#define KERNCAP_TESTS_FAKE_DEVICE_H

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/device.h"
#include "common/host_scan.h"

constexpr int fake_fault = 700;  // is_fault

class FakeDevice : public kerncap::Device {
 public:
  // What the test sets.
  bool capturing = false, kernels = true;
  int busy_polls = 0;      // idle() and passed() say "pending" so often
  int launch_status = 0;   // what the device says once a launch has run
  int copy_error_at = -1;  // the copy with this number fails
  uint64_t clone_bytes_free = 0;
  std::vector<kerncap::Allocation> module_globals;
  std::vector<uint64_t> mirror;
  // What the test reads.
  std::atomic<int> copies{0}, clones{0}, entered{0};
  uint64_t copied_bytes = 0;

  bool is_capturing() override { return capturing; }
  bool enter(const kerncap::Launch&, std::string*) override {
    ++entered;
    return true;
  }
  void leave() noexcept override { --entered; }
  bool prepare(std::string*) override {
    if (ring_.empty()) ring_.resize(ring_buffers * buffer_bytes);
    return true;
  }
  kerncap::DeviceFacts describe(int ordinal) override {
    return {"cuda", "fake", "sm_90", ordinal, 1ULL << 34, "none"};
  }
  std::string stream_text(void*) override { return "the fake stream"; }
  std::vector<kerncap::Allocation> globals(const kerncap::Launch& launch,
                                           const std::vector<std::string>& names) override {
    std::vector<kerncap::Allocation> found;
    for (kerncap::Allocation global : module_globals)
      for (const std::string& name : names)
        if (global.name == name) {
          global.module = launch.kernel->module;
          found.push_back(global);
        }
    return found;
  }
  bool is_readable(const kerncap::Allocation& allocation) override { return allocation.base != unreadable; }
  void begin_drain() override {}
  kerncap::Poll idle(std::string* what) override {
    if (busy_polls != 0) {
      if (busy_polls > 0) --busy_polls;
      *what = "the fake stream";
      return kerncap::Poll::pending;
    }
    if (launch_status == 0) return kerncap::Poll::done;
    *what = error_text(launch_status);
    return kerncap::Poll::failed;
  }
  int status() const noexcept override { return launch_status; }
  std::string error_text(int status) override { return "FAKE_ERROR (" + std::to_string(status) + ")"; }
  int sticky_error() noexcept override { return launch_status; }
  uint8_t* buffer(size_t slot) noexcept override { return ring_.data() + slot * buffer_bytes; }
  bool start_read(size_t slot, int, uint64_t address, size_t size) override {
    if (copies++ == copy_error_at) {
      launch_status = 1;
      return false;
    }
    copied_bytes += size;
    std::memcpy(buffer(slot), reinterpret_cast<const void*>(address), size);
    return true;
  }
  kerncap::Poll poll(size_t) override {
    return ++polls_ % 3 == 0 ? kerncap::Poll::done : kerncap::Poll::pending;
  }
  bool write(int, uint64_t address, const uint8_t* bytes, size_t size) override {
    std::memcpy(reinterpret_cast<void*>(address), bytes, size);
    return true;
  }
  bool has_kernels(int) override { return kernels; }
  bool fingerprints(int, const std::vector<kerncap::PrintRange>& ranges, uint32_t chunk) override {
    for (const kerncap::PrintRange& range : ranges)
      for (uint64_t at = 0; at < range.size; at += chunk)
        range.out[at / chunk] = kerncap::fingerprint(reinterpret_cast<const uint8_t*>(range.address + at),
                                                     std::min<uint64_t>(chunk, range.size - at));
    return true;
  }
  bool begin_scan(int, const std::vector<kerncap::Interval>& table) override {
    table_ = table;
    sources_.assign(table.size(), UINT64_MAX);
    return true;
  }
  bool scan(int, uint64_t address, uint64_t words) override {
    for (uint64_t i = 0; i < words; ++i) {
      uint64_t word;
      std::memcpy(&word, reinterpret_cast<const void*>(address + i * 8), 8);
      size_t found = kerncap::find_interval(table_, word);
      if (found < table_.size()) sources_[found] = std::min(sources_[found], address + i * 8);
    }
    return true;
  }
  bool end_scan(int, std::vector<uint64_t>* sources) override {
    *sources = sources_;
    return true;
  }
  uint64_t clone_room(int, uint64_t size) override {
    if (clone_bytes_free / 2 < size) return 0;
    ++clones;
    clone_bytes_free -= size;
    auto* memory = static_cast<uint8_t*>(std::malloc(size));
    sizes_[reinterpret_cast<uint64_t>(memory)] = size;
    return reinterpret_cast<uint64_t>(memory);
  }
  void free_clone(int, uint64_t address) noexcept override {
    clone_bytes_free += sizes_[address];
    std::free(reinterpret_cast<void*>(address));
    --clones;
  }
  bool copy(int, uint64_t to, uint64_t from, uint64_t size) override {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
    return true;
  }
  bool finish_copies() override { return true; }
  void disturb(unsigned) noexcept override {}
  bool mark(const kerncap::Launch&) override { return true; }
  kerncap::Poll passed(std::string* what) override { return idle(what); }
  void mark_begin(const kerncap::Launch&, kerncap::RowNumber row) noexcept override { timed_ = row; }
  void mark_end(const kerncap::Launch&) noexcept override {}
  bool next_time(kerncap::RowNumber* row, kerncap::Span* span) noexcept override {
    *row = timed_;
    *span = {0, 1000};
    timed_ = 0;
    return *row != 0;
  }
  const char* clock(std::string* reason) override {
    *reason = "it is a fake";
    return "events";
  }
  std::vector<uint64_t> mirror_blocks() override { return mirror; }
  std::string program_of(const kerncap::Image&) override { return {}; }
  void reset_after_fork() noexcept override {}

  uint64_t unreadable = 0;

 private:
  std::vector<uint8_t> ring_;
  unsigned polls_ = 0;
  std::vector<kerncap::Interval> table_;
  std::vector<uint64_t> sources_;
  std::map<uint64_t, uint64_t> sizes_;
  kerncap::RowNumber timed_ = 0;
};

FakeDevice& fake_device();

#endif  // KERNCAP_TESTS_FAKE_DEVICE_H
