// `kerncap trace --native`: what a launch finds in the memory that it reaches and what it leaves there, as
// digests; of a Triton launch the hook asks for them. Chunks are hashed on the device if it runs our kernels.
#include <algorithm>
#include <cstring>
#include <new>

#include "common/capture_steps.h"
#include "common/clock.h"
#include "common/drain.h"
#include "common/gate.h"
#include "common/host_scan.h"
#include "common/peers.h"
#include "common/quiet_signals.h"

namespace kerncap {
namespace {

// What is allocated, as a scan takes it: ascending, and apart.
std::vector<Interval> allocated() {
  std::vector<Interval> found;
  for (const Allocation& allocation : MemoryMap::instance().snapshot()) {
    uint64_t end = allocation.base + allocation.size;
    if (!found.empty() && allocation.base <= found.back().end)
      found.back().end = std::max(found.back().end, end);
    else
      found.push_back({allocation.base, end});
  }
  return found;
}

// Whether all of it is memory of this device that is allocated and readable: a kernel of ours that met other
// memory would be the target's fault.
bool is_held(Device& device, int ordinal, uint64_t address, uint64_t size) {
  for (const uint64_t end = address + size; address < end;) {
    Allocation found;
    if (!MemoryMap::instance().find(address, &found) || found.kind != RegionKind::device ||
        found.device != ordinal || found.shared == Shared::multicast || !device.is_readable(found))
      return false;
    address = found.base + found.size;
  }
  return true;
}

// The device is this thread's until it leaves.
bool write_digests(ProcessCapture& process, Device& device, int ordinal, const unsigned long long* pairs,
                   size_t count, char* text) {
  std::string why, let_through;
  if (device.is_capturing() || !device.prepare(&why)) return false;
  if (!device.has_loaded(ordinal) && drain_device(process, device, &why, &let_through) != Poll::done)
    return false;
  if (!device.has_kernels(ordinal)) return false;
  const uint32_t chunk = process.conf().chunk_bytes;
  std::vector<uint64_t> first{0};
  for (size_t i = 0; i < count; ++i) {
    const uint64_t address = pairs[2 * i], size = pairs[2 * i + 1];
    if (address % 8 != 0 || !is_held(device, ordinal, address, size)) return false;
    first.push_back(first.back() + (size + chunk - 1) / chunk);
  }
  Prints prints(first.back());
  std::vector<PrintRange> ranges;
  for (size_t i = 0; i < count; ++i)
    ranges.push_back({pairs[2 * i], pairs[2 * i + 1], prints.data() + first[i]});
  if (!device.fingerprints(ordinal, ranges, chunk)) return false;
  for (size_t i = 0; i < count; ++i)
    std::memcpy(text + i * digest_digits, digest(prints.data() + first[i], first[i + 1] - first[i]).data(),
                digest_digits);
  return true;
}

}  // namespace

bool capture::digests(int ordinal, const unsigned long long* pairs, long count, char* text) noexcept {
  ProcessCapture* process = process_capture();
  if (process == nullptr || !gate::close(process->conf().drain_timeout_ns())) return false;
  KeepErrno keep;
  QuietSignals quiet;
  Device& own = *device();
  Launch launch;  // of nothing: its context is the one that is current
  launch.device = ordinal;
  bool entered = false, good = false;
  try {
    std::string why;
    entered = own.enter(launch, &why);
    good = entered && write_digests(*process, own, ordinal, pairs, static_cast<size_t>(count), text);
  } catch (const std::bad_alloc&) {
    good = false;
  }
  if (entered) own.leave();
  gate::open();
  return good;
}

void LaunchCapture::trace() {
  launched_ns_ = wall_ns();
  bool ready = trace_before();
  leave();
  if (ready) {
    real_.once();
    ready = trace_after();
    leave();
  }
  if (!ready && !settled_) fail();
  release_arrays();
  if (gated_) gate::open();
  gated_ = false;
}

bool LaunchCapture::trace_before() {
  if (const char* library = peers::library_of(*launch_.kernel)) {
    why_ = std::string("it is one of ") + library + ", which wait for other processes";
    return false;
  }
  if (!prepare() || !close_gate() || !look()) return false;
  if (!reachable_.not_held.empty()) {
    why_ = "it needs " + reachable_.not_held.front() + ", which can't be hashed";
    return false;
  }
  if (!fits() || !place_arrays()) return false;
  number_ = static_cast<int64_t>(process_.session.next_launch());
  layout_ = std::make_unique<Layout>(reachable_.regions, conf_.chunk_bytes);
  return find_addresses() && print(&before_);
}

bool LaunchCapture::trace_after() {
  int status = real_.status();
  std::string error = status != 0 ? device_.error_text(status) : std::string();
  if (status == 0) {
    if (!enter()) return false;
    Poll poll = wait_for_idle(&error);
    if (poll == Poll::pending) {
      why_ = error + " did not finish after the launch";
      return false;
    }
    if (poll == Poll::done) error.clear();
    if (poll == Poll::done && !print(&now_)) return false;
    if (poll == Poll::failed) process_.saw_fault(error);
  } else if (is_fault(status)) {
    process_.saw_fault(error);
  }
  write_traced(error);
  if (!recorded_) {
    why_ = process_.session.refusal("its record");
    return false;
  }
  settle(Outcome::kept);
  return true;
}

bool LaunchCapture::print(Prints* prints) {
  Prints none(layout_->first_chunk.back());
  return find_changed(device_, *layout_, none, nullptr, nullptr, &chunks_, prints, &why_);
}

// Words that lead into allocated memory are others in each process.
bool LaunchCapture::find_addresses() {
  addresses_.assign(reachable_.regions.size(), false);
  const std::vector<Interval> table = allocated();
  for (size_t i = 0; i < reachable_.regions.size() && !table.empty(); ++i) {
    const Region& region = reachable_.regions[i];
    uint64_t start = (region.base + 7) & ~7ULL, end = region.base + region.size;
    if (region.kind == RegionKind::array || start + 8 > end) continue;
    ScanRange range{start, (end - start) / 8, region.device, region.kind == RegionKind::host};
    if (is_on_device(device_, region) && device_.begin_scan(region.device, table)) {
      std::vector<uint64_t> sources;
      if (!device_.scan(range.device, range.address, range.words) ||
          !device_.end_scan(range.device, &sources)) {
        why_ = "looking for addresses: " + device_.error_text(device_.status());
        return false;
      }
      addresses_[i] = std::any_of(sources.begin(), sources.end(), [](uint64_t s) { return s != UINT64_MAX; });
    } else {
      HostSources sources;
      sources.assign(table.size());
      if (!host_scan(device_, table, {range}, &sources, &why_)) return false;
      for (size_t k = 0; k < table.size(); ++k)
        addresses_[i] = addresses_[i] || sources.at(k) != HostSources::none;
    }
  }
  return true;
}

}  // namespace kerncap
