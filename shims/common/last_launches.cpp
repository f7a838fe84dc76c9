#include "common/last_launches.h"

#include <algorithm>
#include <vector>

#include "common/text.h"

namespace kerncap::last_launches {

alignas(64) std::atomic<uint64_t> newest{0};

namespace {

// An entry as it was at one moment.
struct Noted {
  uint64_t number = 0;
  const Kernel* kernel = nullptr;
  void* stream = nullptr;
  uint64_t grid_xy = 0, grid_z_block_x = 0, block_yz = 0;
};

// False: it is empty, or is being written.
bool read(const LaunchEntry& entry, Noted* noted) noexcept {
  noted->number = entry.number.load();
  if (noted->number == 0) return false;
  noted->kernel = entry.kernel.load();
  noted->stream = entry.stream.load();
  noted->grid_xy = entry.grid_xy.load();
  noted->grid_z_block_x = entry.grid_z_block_x.load();
  noted->block_yz = entry.block_yz.load();
  return entry.number.load() == noted->number;
}

template <typename Visit>
void each(Visit&& visit) {
  Noted noted;
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next)
    for (const LaunchEntry& entry : line->launches)
      if (read(entry, &noted)) visit(noted);
}

}  // namespace

const Kernel* last_on(const void* stream) noexcept {
  Noted last;
  each([&](const Noted& noted) {
    if (noted.stream == stream && noted.number > last.number) last = noted;
  });
  return last.kernel;
}

json::Writer describe(const std::string& error) {
  std::vector<Noted> all;
  each([&](const Noted& noted) { all.push_back(noted); });
  std::stable_sort(all.begin(), all.end(),
                   [](const Noted& a, const Noted& b) { return a.number < b.number; });
  if (all.size() > ThreadLine::kept_launches) all.erase(all.begin(), all.end() - ThreadLine::kept_launches);
  json::Writer json;
  json.begin_object().key(key::launches).begin_array();
  for (const Noted& noted : all) {
    const uint64_t xy = noted.grid_xy, zx = noted.grid_z_block_x, yz = noted.block_yz;
    json.begin_object().field(key::kernel, noted.kernel->demangled);
    json.key(key::grid).begin_array().value(xy >> 32).value(xy & UINT32_MAX).value(zx >> 32).end();
    json.key(key::block).begin_array().value(zx & UINT32_MAX).value(yz >> 32).value(yz & UINT32_MAX).end();
    json.field(key::stream, address_text(reinterpret_cast<uintptr_t>(noted.stream)));
    json.field(key::index, noted.number - 1).end();
  }
  json.end().field(key::error, error).end();
  return json;
}

void reset() noexcept {
  for (ThreadLine* line = first_line(); line != nullptr; line = line->next)
    for (LaunchEntry& entry : line->launches) entry.number.store(0);
  newest.store(0);
  this_thread.launches = this_thread.launch_number = 0;
}

}  // namespace kerncap::last_launches
