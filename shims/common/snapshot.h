// The bytes of reachable memory at one moment, kept where that is cheapest until it is known who wants them,
// and what of it a launch changed.
//
// Chunk by chunk there is a fingerprint, made on the device if it runs our kernels: chunks of zeros
// are never copied, and of the state after a launch only those that changed.
#ifndef KERNCAP_COMMON_SNAPSHOT_H
#define KERNCAP_COMMON_SNAPSHOT_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/device.h"
#include "common/reachable_memory.h"
#include "common/snapshot_file.h"
#include "common/writer_pool.h"

namespace kerncap {

using Chunk = std::pair<uint32_t, uint64_t>;  // region, chunk of it

// How regions divide into chunks, and where each lies in a state's file.
struct Layout {
  static constexpr uint64_t alignment = 4096;

  Layout(const std::vector<Region>& regions, uint32_t chunk_bytes);
  uint64_t chunks_of(uint32_t region) const { return first_chunk[region + 1] - first_chunk[region]; }
  uint64_t index(const Chunk& chunk) const { return first_chunk[chunk.first] + chunk.second; }
  uint32_t size_of(const Chunk& chunk) const;

  std::vector<Region> regions;
  uint32_t chunk_bytes;
  std::vector<uint64_t> offsets;      // in the file, of each region
  std::vector<uint64_t> first_chunk;  // one more than there are regions
  uint64_t size = 0;
};

using Prints = std::vector<Fingerprint>;  // by Layout::index

class Snapshot {
 public:
  Snapshot(Device& device, const Layout& layout) : device_(device), layout_(layout) {}
  ~Snapshot() { drop_clones(); }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Fingerprints the regions that devices can look into; the first call of all.
  bool measure(std::string* why);
  // After measure(): at most so many bytes go to the file, zeros left out.
  uint64_t bytes_to_write() const;
  // Leaves device regions in clones on their device if they fit; what is left needs the file.
  bool clone(std::string* why);
  bool is_cloned() const;   // every region
  bool has_clones() const;  // any
  // All that is in no clone goes to the file, which has layout.size bytes.
  bool save(SnapshotFile& file, Progress* progress, std::string* why);
  // What is in clones too.
  bool fetch(SnapshotFile& file, Progress* progress, std::string* why);
  void drop_clones() noexcept;

  // Bytes of a chunk as they were; `file` may be null if the region is cloned.
  bool read(const Chunk& chunk, const SnapshotFile* file, uint8_t* bytes, std::string* why);
  bool restore(const std::vector<Chunk>& chunks, const SnapshotFile* file, std::string* why);

  const Prints& prints() const { return prints_; }

 private:
  bool write_out(bool cloned, SnapshotFile& file, Progress* progress, std::string* why);

  Device& device_;
  const Layout& layout_;
  Prints prints_;
  std::vector<bool> measured_;    // by region: on the device
  std::vector<uint64_t> clones_;  // by region; 0: none
};

// Of a region, by the prints of its chunks, in hex. Compared between runs: a change of it, or of the prints,
// needs another version of the file of `kerncap trace`; the hook's fingerprints.py computes the same.
constexpr size_t digest_digits = 32;
std::string digest(const Fingerprint* prints, uint64_t count);

// Whether a device can look into a region by itself.
bool is_on_device(Device& device, const Region& region);

// Opens a file for at most `bound_bytes`; null: `why`.
struct Outlet {
  virtual ~Outlet() = default;
  virtual SnapshotFile* open(uint64_t bound_bytes, std::string* why) = 0;
};

// What the regions hold now, against `before`: the chunks that differ. With `outlet`
// their bytes too, chunk i of `chunks` at i * chunk_bytes. `now` may be null.
bool find_changed(Device& device, const Layout& layout, const Prints& before, Outlet* outlet,
                  Progress* progress, std::vector<Chunk>* chunks, Prints* now, std::string* why);

// A chunk as it is now.
bool read_now(Device& device, const Layout& layout, const Chunk& chunk, uint8_t* bytes, std::string* why);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_SNAPSHOT_H
