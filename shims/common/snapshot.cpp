#include "common/snapshot.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "common/clock.h"

namespace kerncap {
namespace {

bool fail(Device& device, const char* doing, std::string* why) {
  if (why->empty()) *why = std::string(doing) + ": " + device.error_text(device.status());
  return false;
}

// One copy from the device, waited for.
bool read_device(Device& device, int ordinal, uint64_t address, uint8_t* bytes, uint64_t size,
                 std::string* why) {
  for (uint64_t at = 0; at < size;) {
    uint64_t part = std::min<uint64_t>(size - at, Device::buffer_bytes);
    if (!device.start_read(0, ordinal, address + at, part)) return fail(device, "reading memory", why);
    Poll poll = Poll::pending;
    for (Backoff backoff; (poll = device.poll(0)) == Poll::pending;) backoff.pause();
    if (poll == Poll::failed) return fail(device, "reading memory", why);
    std::memcpy(bytes + at, device.buffer(0), part);
    at += part;
  }
  return true;
}

// Between all arrays and the memory that stands for them.
bool copy_arrays(Device& device, const Layout& layout, bool to_memory, std::string* why) {
  for (const Region& region : layout.regions)
    if (region.array != 0 && !device.copy_array(region.device, region.array, region.base, to_memory))
      return fail(device, "copying an array", why);
  return device.finish_copies() || fail(device, "copying an array", why);
}

// Fingerprints every region that its device can look into, all of a device's at once.
bool measure_on_devices(Device& device, const Layout& layout, Prints* prints, std::vector<bool>* measured,
                        std::string* why) {
  if (!copy_arrays(device, layout, true, why)) return false;
  std::map<int, std::vector<PrintRange>> ranges;
  for (uint32_t i = 0; i < layout.regions.size(); ++i) {
    const Region& region = layout.regions[i];
    if (!is_on_device(device, region)) continue;
    (*measured)[i] = true;
    ranges[region.device].push_back({region.base, region.size, prints->data() + layout.first_chunk[i]});
  }
  for (const auto& [ordinal, on_it] : ranges)
    if (!device.fingerprints(ordinal, on_it, layout.chunk_bytes))
      return fail(device, "fingerprinting memory", why);
  return true;
}

// Hands out pieces of regions: whole ones, or runs of the chunks that are wanted.
class Walk : public Pieces {
 public:
  Walk(const Layout& layout) : layout_(layout) {}

  bool next(Piece* piece) override {
    for (; region_ < layout_.regions.size(); ++region_, chunk_ = 0) {
      uint64_t count = layout_.chunks_of(region_);
      if (!visits(region_)) continue;
      bool whole = is_whole(region_);
      while (chunk_ < count && !whole && !wants({region_, chunk_})) ++chunk_;
      if (chunk_ >= count) continue;
      uint64_t first = chunk_, most = Device::buffer_bytes / layout_.chunk_bytes;
      while (chunk_ < count && chunk_ - first < most && (whole || wants({region_, chunk_}))) ++chunk_;
      fill(piece, first);
      started(*piece, first, chunk_);
      return true;
    }
    return false;
  }

 protected:
  virtual bool visits(uint32_t region) = 0;
  virtual bool is_whole(uint32_t region) = 0;  // every chunk, whatever `wants` says
  virtual bool wants(const Chunk& chunk) = 0;
  virtual uint64_t address_of(uint32_t region) { return layout_.regions[region].base; }
  virtual void started(Piece& piece, uint64_t first, uint64_t end) { (void)piece, (void)first, (void)end; }

  const Layout& layout_;

 private:
  void fill(Piece* piece, uint64_t first) {
    const Region& region = layout_.regions[region_];
    piece->region = region_;
    piece->offset = first * layout_.chunk_bytes;
    uint64_t end = std::min(region.size, chunk_ * layout_.chunk_bytes);
    piece->size = static_cast<uint32_t>(end - piece->offset);
    piece->address = address_of(region_) + piece->offset;
    piece->device = region.device;
    piece->direct = region.kind == RegionKind::host;
    piece->position = layout_.offsets[region_] + piece->offset;
  }

  uint32_t region_ = 0;
  uint64_t chunk_ = 0;
};

// Writes regions to a state's file; fingerprints those that the device could not.
class Save : public Walk {
 public:
  Save(const Layout& layout, Prints& prints, const std::vector<bool>& measured,
       const std::vector<uint64_t>& clones, bool cloned, SnapshotFile& file)
      : Walk(layout), prints_(prints), measured_(measured), clones_(clones), cloned_(cloned), file_(file) {}

  bool work(const Piece& piece, const uint8_t* bytes) noexcept override {
    uint32_t chunk_bytes = layout_.chunk_bytes;
    uint64_t first = layout_.index({piece.region, piece.offset / chunk_bytes});
    uint32_t start = 0, count = (piece.size + chunk_bytes - 1) / chunk_bytes;
    for (uint32_t i = 0; i <= count; ++i) {
      uint32_t at = std::min(i * chunk_bytes, piece.size);
      bool is_zero = i == count;
      if (i < count) {
        Fingerprint& print = prints_[first + i];
        if (!measured_[piece.region]) print = fingerprint(bytes + at, std::min(chunk_bytes, piece.size - at));
        is_zero = print.any == 0;
      }
      if (!is_zero) continue;
      if (at > start && !file_.write(piece.position + start, bytes + start, at - start)) return false;
      start = std::min((i + 1) * chunk_bytes, piece.size);
    }
    return true;
  }

 protected:
  bool visits(uint32_t region) override { return (clones_[region] != 0) == cloned_; }
  bool is_whole(uint32_t region) override { return !measured_[region]; }
  bool wants(const Chunk& chunk) override { return prints_[layout_.index(chunk)].any != 0; }
  uint64_t address_of(uint32_t region) override {
    return cloned_ ? clones_[region] : layout_.regions[region].base;
  }

 private:
  Prints& prints_;
  const std::vector<bool>& measured_;
  const std::vector<uint64_t>& clones_;
  bool cloned_;
  SnapshotFile& file_;
};

// Compares regions with fingerprints; what changed goes to `out`, one chunk after the other.
class Compare : public Walk {
 public:
  Compare(const Layout& layout, const Prints& before, Prints& now, const std::vector<bool>& measured,
          SnapshotFile* out)
      : Walk(layout), before_(before), now_(now), measured_(measured), out_(out) {
    // Reserved here, on the launching thread: work() must not run out of memory.
    chunks_.reserve(before.size());
  }

  bool work(const Piece& piece, const uint8_t* bytes) noexcept override {
    uint32_t chunk_bytes = layout_.chunk_bytes, count = (piece.size + chunk_bytes - 1) / chunk_bytes;
    if (measured_[piece.region]) return write(piece.position, bytes, piece.size);
    uint64_t first = piece.offset / chunk_bytes;
    uint32_t run = 0;  // chunks that changed, up to this one
    for (uint32_t i = 0; i <= count; ++i) {
      bool changed = false;
      if (i < count) {
        uint64_t index = layout_.index({piece.region, first + i});
        uint32_t at = i * chunk_bytes;
        now_[index] = fingerprint(bytes + at, std::min(chunk_bytes, piece.size - at));
        changed = now_[index] != before_[index];
      }
      if (changed) {
        ++run;
      } else if (run > 0) {
        uint64_t position = take(piece.region, first + i - run, run);
        uint32_t start = (i - run) * chunk_bytes;
        if (!write(position, bytes + start, std::min(i * chunk_bytes, piece.size) - start)) return false;
        run = 0;
      }
    }
    return true;
  }

  std::vector<Chunk>& chunks() { return chunks_; }

 protected:
  // Without `out` the device's own regions need no copy.
  bool visits(uint32_t region) override {
    if (measured_[region] && out_ == nullptr)
      for (uint64_t i = 0; i < layout_.chunks_of(region); ++i)
        if (wants({region, i})) take(region, i, 1);
    return !measured_[region] || out_ != nullptr;
  }
  bool is_whole(uint32_t region) override { return !measured_[region]; }
  bool wants(const Chunk& chunk) override {
    uint64_t index = layout_.index(chunk);
    return now_[index] != before_[index];
  }
  void started(Piece& piece, uint64_t first, uint64_t end) override {
    if (measured_[piece.region]) piece.position = take(piece.region, first, end - first);
  }

 private:
  uint64_t take(uint32_t region, uint64_t first, uint64_t count) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t position = chunks_.size() * layout_.chunk_bytes;
    for (uint64_t i = 0; i < count; ++i) chunks_.push_back({region, first + i});
    return position;
  }
  bool write(uint64_t position, const uint8_t* bytes, uint64_t size) noexcept {
    return out_ == nullptr || out_->write(position, bytes, size);
  }

  const Prints& before_;
  Prints& now_;
  const std::vector<bool>& measured_;
  SnapshotFile* out_;
  std::mutex mutex_;
  std::vector<Chunk> chunks_;
};

bool run(Device& device, Pieces& pieces, SnapshotFile* file, Progress* progress, std::string* why) {
  if (pump(device, pieces, progress, why)) return true;
  if (file != nullptr && file->error() != 0)
    *why = "its state could not be written: " + io_error_text(file->error());
  else if (why->empty() || why->compare(0, 6, "a copy") != 0)
    *why = "copying memory: " + *why;
  return false;
}

}  // namespace

Layout::Layout(const std::vector<Region>& all, uint32_t chunk) : regions(all), chunk_bytes(chunk) {
  first_chunk.push_back(0);
  for (const Region& region : regions) {
    offsets.push_back(size);
    size += (region.size + alignment - 1) / alignment * alignment;
    first_chunk.push_back(first_chunk.back() + (region.size + chunk_bytes - 1) / chunk_bytes);
  }
}

uint32_t Layout::size_of(const Chunk& chunk) const {
  uint64_t left = regions[chunk.first].size - chunk.second * chunk_bytes;
  return static_cast<uint32_t>(std::min<uint64_t>(left, chunk_bytes));
}

std::string digest(const Fingerprint* prints, uint64_t count) {
  Fingerprint all;
  for (uint64_t i = 0; i < count; ++i) {
    mixing::add(all, prints[i].first, 2 * i);
    mixing::add(all, prints[i].second, 2 * i + 1);
  }
  char text[digest_digits + 1];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(all.first),
                static_cast<unsigned long long>(all.second));
  return text;
}

bool is_on_device(Device& device, const Region& region) {
  // Constants are reached through another path than loads; managed memory would move to the device.
  bool is_plain = region.kind == RegionKind::device || region.kind == RegionKind::array;
  return is_plain && region.base % 8 == 0 && device.has_kernels(region.device);
}

bool Snapshot::measure(std::string* why) {
  prints_.assign(layout_.first_chunk.back(), Fingerprint{});
  measured_.assign(layout_.regions.size(), false);
  clones_.assign(layout_.regions.size(), 0);
  return measure_on_devices(device_, layout_, &prints_, &measured_, why);
}

uint64_t Snapshot::bytes_to_write() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < layout_.regions.size(); ++i) {
    if (clones_[i] != 0) continue;
    if (!measured_[i]) {
      bytes += layout_.regions[i].size;
      continue;
    }
    for (uint64_t chunk = 0; chunk < layout_.chunks_of(i); ++chunk)
      if (prints_[layout_.index({i, chunk})].any != 0) bytes += layout_.size_of({i, chunk});
  }
  return bytes;
}

bool Snapshot::clone(std::string* why) {
  for (uint32_t i = 0; i < layout_.regions.size(); ++i) {
    const Region& region = layout_.regions[i];
    if (!measured_[i]) continue;  // needs its fingerprints from the host's pass
    uint64_t room = device_.clone_room(region.device, region.size);
    if (room == 0) continue;
    clones_[i] = room;
    if (!device_.copy(region.device, room, region.base, region.size))
      return fail(device_, "copying on the device", why);
  }
  return device_.finish_copies() || fail(device_, "copying on the device", why);
}

bool Snapshot::is_cloned() const {
  return std::all_of(clones_.begin(), clones_.end(), [](uint64_t clone) { return clone != 0; });
}

bool Snapshot::has_clones() const {
  return std::any_of(clones_.begin(), clones_.end(), [](uint64_t clone) { return clone != 0; });
}

bool Snapshot::write_out(bool cloned, SnapshotFile& file, Progress* progress, std::string* why) {
  Save save(layout_, prints_, measured_, clones_, cloned, file);
  return run(device_, save, &file, progress, why);
}

bool Snapshot::save(SnapshotFile& file, Progress* progress, std::string* why) {
  return write_out(false, file, progress, why);
}

bool Snapshot::fetch(SnapshotFile& file, Progress* progress, std::string* why) {
  if (!write_out(true, file, progress, why)) return false;
  drop_clones();
  return true;
}

void Snapshot::drop_clones() noexcept {
  for (uint32_t i = 0; i < clones_.size(); ++i) {
    if (clones_[i] != 0) device_.free_clone(layout_.regions[i].device, clones_[i]);
    clones_[i] = 0;
  }
}

bool Snapshot::read(const Chunk& chunk, const SnapshotFile* file, uint8_t* bytes, std::string* why) {
  uint64_t at = chunk.second * layout_.chunk_bytes;
  uint32_t size = layout_.size_of(chunk);
  if (clones_[chunk.first] != 0)
    return read_device(device_, layout_.regions[chunk.first].device, clones_[chunk.first] + at, bytes, size,
                       why);
  if (file != nullptr && file->read(layout_.offsets[chunk.first] + at, bytes, size)) return true;
  *why = "the saved state can't be read back";
  return false;
}

bool Snapshot::restore(const std::vector<Chunk>& chunks, const SnapshotFile* file, std::string* why) {
  std::vector<uint8_t> bytes(layout_.chunk_bytes);
  for (const Chunk& chunk : chunks) {
    const Region& region = layout_.regions[chunk.first];
    uint64_t at = chunk.second * layout_.chunk_bytes;
    uint32_t size = layout_.size_of(chunk);
    if (clones_[chunk.first] != 0) {
      if (!device_.copy(region.device, region.base + at, clones_[chunk.first] + at, size))
        return fail(device_, "putting memory back", why);
      continue;
    }
    if (!read(chunk, file, bytes.data(), why)) return false;
    if (region.kind == RegionKind::host)
      std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(region.base + at)), bytes.data(), size);
    else if (!device_.write(region.device, region.base + at, bytes.data(), size))
      return fail(device_, "putting memory back", why);
  }
  bool finished = device_.finish_copies() || fail(device_, "putting memory back", why);
  return finished && copy_arrays(device_, layout_, false, why);
}

bool find_changed(Device& device, const Layout& layout, const Prints& before, Outlet* outlet,
                  Progress* progress, std::vector<Chunk>* chunks, Prints* now, std::string* why) {
  Prints own;
  Prints& prints = now != nullptr ? *now : own;
  prints.assign(layout.first_chunk.back(), Fingerprint{});
  std::vector<bool> measured(layout.regions.size(), false);
  if (!measure_on_devices(device, layout, &prints, &measured, why)) return false;
  SnapshotFile* out = nullptr;
  if (outlet != nullptr) {
    uint64_t bound = 0;
    for (uint32_t i = 0; i < layout.regions.size(); ++i)
      for (uint64_t at = layout.first_chunk[i]; at < layout.first_chunk[i + 1]; ++at)
        if (!measured[i] || prints[at] != before[at]) bound += layout.chunk_bytes;
    if ((out = outlet->open(bound, why)) == nullptr) return false;
  }
  Compare compare(layout, before, prints, measured, out);
  if (!run(device, compare, out, progress, why)) return false;
  *chunks = std::move(compare.chunks());
  return out == nullptr || out->set_size(chunks->size() * layout.chunk_bytes, why);
}

bool read_now(Device& device, const Layout& layout, const Chunk& chunk, uint8_t* bytes, std::string* why) {
  const Region& region = layout.regions[chunk.first];
  uint64_t address = region.base + chunk.second * layout.chunk_bytes;
  uint32_t size = layout.size_of(chunk);
  if (region.kind != RegionKind::host) return read_device(device, region.device, address, bytes, size, why);
  std::memcpy(bytes, reinterpret_cast<const void*>(static_cast<uintptr_t>(address)), size);
  return true;
}

}  // namespace kerncap
