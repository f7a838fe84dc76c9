#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "check.h"
#include "common/snapshot.h"
#include "fake_device.h"

using namespace kerncap;

namespace {

constexpr uint32_t chunk_bytes = 4096;

struct Folder {
  char path[32] = "/tmp/kerncap-state-XXXXXX";
  Conf conf;
  std::unique_ptr<Session> session;

  Folder() {
    CHECK(::mkdtemp(path) != nullptr);
    conf.folder = path;
    session = std::make_unique<Session>(conf, "cuda");
    CHECK(session->open());
  }
  ~Folder() {
    std::string command = std::string("rm -rf ") + path;
    CHECK(std::system(command.c_str()) == 0);
  }
};

struct Memory {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<Region> regions;

  std::vector<uint8_t>& add(size_t size, RegionKind kind = RegionKind::device) {
    bytes.emplace_back(size);
    Region region;
    region.base = reinterpret_cast<uint64_t>(bytes.back().data());
    region.size = size;
    region.kind = kind;
    regions.push_back(region);
    return bytes.back();
  }
};

std::vector<uint8_t> read_back(const SnapshotFile& file, const Layout& layout, uint32_t region) {
  std::vector<uint8_t> bytes(layout.regions[region].size);
  CHECK(file.read(layout.offsets[region], bytes.data(), bytes.size()));
  return bytes;
}

void fill(std::vector<uint8_t>& bytes, unsigned seed) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>((i * 31 + seed) % 251);
}

struct Outlet1 : Outlet {
  explicit Outlet1(Folder& folder) : folder(folder) {}
  SnapshotFile* open(uint64_t bound, std::string* why) override {
    return file.create(*folder.session, "9.post", bound, why) ? &file : nullptr;
  }
  Folder& folder;
  SnapshotFile file;
};

// Some regions device, some managed, some host; odd sizes; zeros; then a few changes.
void round_trip(bool kernels, size_t scale) {
  fake_device().kernels = kernels;
  fake_device().prepare(nullptr);
  start_writers();
  Folder folder;
  Memory memory;
  memory.bytes.reserve(8);
  fill(memory.add(chunk_bytes * 5 * scale + 17), 1);
  memory.add(chunk_bytes * 100);  // zeros
  fill(memory.add(3, RegionKind::managed), 2);
  fill(memory.add(chunk_bytes * 3 + 1, RegionKind::host), 3);
  auto& sparse = memory.add(chunk_bytes * 600, RegionKind::managed);
  sparse[chunk_bytes * 333 + 5] = 1;
  Layout layout(memory.regions, chunk_bytes);
  Snapshot state(fake_device(), layout);
  SnapshotFile file;
  std::string why;
  CHECK(file.create(*folder.session, "3.pre", layout.size, &why));
  CHECK(state.measure(&why) && state.save(file, nullptr, &why));
  for (uint32_t i = 0; i < memory.regions.size(); ++i) CHECK(read_back(file, layout, i) == memory.bytes[i]);
  struct stat status;
  std::string path = folder.session->path("3.pre");
  CHECK(::stat(path.c_str(), &status) == 0);
  if (scale == 1) CHECK(status.st_size == static_cast<off_t>(layout.size) && status.st_blocks * 512 < 300000);
  std::vector<std::vector<uint8_t>> before = memory.bytes;
  memory.bytes[0][chunk_bytes * 2 + 9] ^= 1;
  memory.bytes[0].back() ^= 1;
  memory.bytes[1][chunk_bytes * 50] = 7;
  memory.bytes[3][0] ^= 0x80;
  sparse[chunk_bytes * 333 + 5] = 0;  // to all zeros
  Outlet1 outlet(folder);
  std::vector<Chunk> chunks;
  CHECK(find_changed(fake_device(), layout, state.prints(), &outlet, nullptr, &chunks, nullptr, &why));
  CHECK(chunks.size() == 5);
  std::vector<uint8_t> bytes(chunk_bytes);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    const uint8_t* now = memory.bytes[chunk.first].data() + chunk.second * chunk_bytes;
    CHECK(outlet.file.read(i * chunk_bytes, bytes.data(), layout.size_of(chunk)));
    CHECK(std::memcmp(bytes.data(), now, layout.size_of(chunk)) == 0);
  }
  CHECK(state.restore(chunks, &file, &why));
  CHECK(memory.bytes == before);
  std::vector<Chunk> none;
  CHECK(find_changed(fake_device(), layout, state.prints(), nullptr, nullptr, &none, nullptr, &why) &&
        none.empty());
  fake_device().kernels = true;
}

std::atomic<int> writes_left{0};

ssize_t full_disk(int fd, const void* bytes, size_t size, off_t offset) {
  if (writes_left.fetch_sub(1) > 0) return ::pwrite(fd, bytes, size, offset);
  errno = ENOSPC;
  return -1;
}

ssize_t short_writes(int fd, const void* bytes, size_t size, off_t offset) {
  return ::pwrite(fd, bytes, size > 100 ? size / 2 : size, offset);
}

}  // namespace

CASE(state_round_trip_over_the_device) {
  round_trip(true, 1);
}
CASE(state_round_trip_over_the_host) {
  round_trip(false, 1);
}
CASE(state_round_trip_striped) {
  round_trip(true, 4000);
}
CASE(state_survives_short_writes) {
  snapshot_write = short_writes;
  round_trip(false, 1);
}

CASE(state_stripes_hold_every_byte) {
  Folder folder;
  SnapshotFile file;
  std::string why;
  uint64_t size = SnapshotFile::stripe_bytes * (writer_count() + 3) + 12345;
  CHECK(file.create(*folder.session, "1.pre", size, &why));
  json::Writer json;
  file.describe(json);
  json::Value described;
  CHECK(json::parse(json.text(), &described) && described.find(key::file)->text == "1.pre");
  uint64_t stripes = 1, stripe_bytes = size;
  if (writer_count() > 1) {
    stripes = static_cast<uint64_t>(described.find(key::stripes)->number);
    stripe_bytes = static_cast<uint64_t>(described.find(key::stripe_bytes)->number);
    CHECK(stripes == writer_count());
  }
  for (uint64_t o : {uint64_t{0}, stripe_bytes - 1, stripe_bytes, stripe_bytes * 2 + 5, size - 1}) {
    if (o >= size) continue;
    uint8_t byte = static_cast<uint8_t>(o * 7 + 1), back = 0;
    CHECK(file.write(o, &byte, 1));
    // As docs/session.md has it.
    std::string path = folder.session->path("1.pre");
    uint64_t stripe = o / stripe_bytes % stripes;
    if (stripe > 0) path += "." + std::to_string(stripe);
    int fd = ::open(path.c_str(), O_RDONLY);
    CHECK(::pread(fd, &back, 1,
                  static_cast<off_t>(o / stripe_bytes / stripes * stripe_bytes + o % stripe_bytes)) == 1);
    ::close(fd);
    CHECK(back == byte);
  }
  uint64_t total = 0;
  for (uint64_t i = 0; i < stripes; ++i) {
    struct stat status;
    std::string path = folder.session->path("1.pre") + (i > 0 ? "." + std::to_string(i) : "");
    CHECK(::stat(path.c_str(), &status) == 0);
    total += static_cast<uint64_t>(status.st_size);
  }
  CHECK(total == size);
}

CASE(state_says_when_the_disk_is_full) {
  fake_device().prepare(nullptr);
  start_writers();
  Folder folder;
  Memory memory;
  fill(memory.add(40U << 20), 5);
  Layout layout(memory.regions, chunk_bytes);
  Snapshot state(fake_device(), layout);
  SnapshotFile file;
  std::string why;
  CHECK(file.create(*folder.session, "3.pre", layout.size, &why) && state.measure(&why));
  writes_left.store(3);
  snapshot_write = full_disk;
  CHECK(!state.save(file, nullptr, &why));
  CHECK(why == "its state could not be written: no space left on the disk");
  file.remove();
  CHECK(::access(folder.session->path("3.pre").c_str(), F_OK) != 0);
}

CASE(state_says_when_a_copy_fails) {
  fake_device().prepare(nullptr);
  Folder folder;
  Memory memory;
  fill(memory.add(40U << 20), 5);
  Layout layout(memory.regions, chunk_bytes);
  Snapshot state(fake_device(), layout);
  SnapshotFile file;
  std::string why;
  CHECK(file.create(*folder.session, "3.pre", layout.size, &why) && state.measure(&why));
  fake_device().copy_error_at = 4;
  CHECK(!state.save(file, nullptr, &why));
  CHECK(why == "copying memory: FAKE_ERROR (1)");
}

CASE(state_clones_where_there_is_room) {
  fake_device().prepare(nullptr);
  Folder folder;
  Memory memory;
  memory.bytes.reserve(4);
  fill(memory.add(chunk_bytes * 4), 5);
  fill(memory.add(chunk_bytes * 100), 6);
  Layout layout(memory.regions, chunk_bytes);
  std::vector<std::vector<uint8_t>> before = memory.bytes;
  fake_device().clone_bytes_free = chunk_bytes * 20;
  {
    Snapshot state(fake_device(), layout);
    SnapshotFile file;
    std::string why;
    CHECK(file.create(*folder.session, "3.pre", layout.size, &why));
    CHECK(state.measure(&why) && state.clone(&why) && fake_device().clones == 1);
    CHECK(state.bytes_to_write() == chunk_bytes * 100);
    CHECK(state.save(file, nullptr, &why));
    fill(memory.bytes[0], 9);
    fill(memory.bytes[1], 9);
    std::vector<Chunk> chunks;
    CHECK(find_changed(fake_device(), layout, state.prints(), nullptr, nullptr, &chunks, nullptr, &why));
    CHECK(chunks.size() == 104 && state.restore(chunks, &file, &why) && memory.bytes == before);
    fill(memory.bytes[0], 9);
    CHECK(state.fetch(file, nullptr, &why) && read_back(file, layout, 0) == before[0]);
  }
  CHECK(fake_device().clones == 0 && fake_device().clone_bytes_free == chunk_bytes * 20);
}
