#include "cuda/registry_textures.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"

namespace kerncap::cuda {
namespace {

struct Level {
  CUmipmappedArray whole;
  unsigned level;
};

struct Textures {
  std::mutex mutex;
  std::vector<LiveTexture> objects;
  std::map<CUmipmappedArray, unsigned> mipmapped;
  std::map<CUarray, Level> levels;
};

std::atomic<size_t> references{0};

Textures& state() noexcept {
  static auto* instance = new Textures;
  return *instance;
}

CUcontext current_context() noexcept {
  CUcontext context = nullptr;
  gate::Own own;
  if (driver()->cuCtxGetCurrent != nullptr) driver()->cuCtxGetCurrent(&context);
  return context;
}

// With memory short an object is not known, and then no launch is captured with it.
template <typename Change>
void change(Change&& change) noexcept {
  Textures& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  try {
    change(all);
  } catch (const std::bad_alloc&) {
  }
}

template <typename Gone>
void erase_objects(Textures& all, Gone&& gone) {
  all.objects.erase(std::remove_if(all.objects.begin(), all.objects.end(), gone), all.objects.end());
}

bool is_same(const LiveTexture& object, uint64_t handle, bool is_surface, CUcontext context) noexcept {
  return object.handle == handle && object.is_surface == is_surface && object.context == context;
}

}  // namespace

std::vector<LiveTexture> textures_of(CUcontext context) noexcept {
  std::vector<LiveTexture> found;
  change([&](Textures& all) {
    for (const LiveTexture& object : all.objects)
      if (object.context == context) found.push_back(object);
  });
  return found;
}

unsigned levels_of(CUmipmappedArray array) noexcept {
  Textures& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.mipmapped.find(array);
  return found == all.mipmapped.end() ? 0 : found->second;
}

bool find_level(CUarray array, CUmipmappedArray* whole, unsigned* level) noexcept {
  Textures& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.levels.find(array);
  if (found == all.levels.end()) return false;
  *whole = found->second.whole;
  *level = found->second.level;
  return true;
}

size_t texture_references() noexcept {
  return references.load(std::memory_order_relaxed);
}

void note_texture(uint64_t handle, bool is_surface) noexcept {
  CUcontext context = current_context();
  change([&](Textures& all) {
    // One that was destroyed with another context current is still here.
    erase_objects(all,
                  [&](const LiveTexture& object) { return is_same(object, handle, is_surface, context); });
    all.objects.push_back({handle, is_surface, context});
  });
}

void forget_texture(uint64_t handle, bool is_surface) noexcept {
  CUcontext context = current_context();
  change([&](Textures& all) {
    erase_objects(all,
                  [&](const LiveTexture& object) { return is_same(object, handle, is_surface, context); });
  });
}

void forget_textures(CUcontext context) noexcept {
  change([&](Textures& all) {
    erase_objects(all, [&](const LiveTexture& object) { return object.context == context; });
  });
}

void note_mipmapped(CUmipmappedArray array, unsigned levels) noexcept {
  change([&](Textures& all) { all.mipmapped[array] = levels; });
}

void note_level(CUarray array, CUmipmappedArray whole, unsigned level) noexcept {
  change([&](Textures& all) { all.levels[array] = {whole, level}; });
}

void forget_mipmapped(CUmipmappedArray array) noexcept {
  change([&](Textures& all) {
    all.mipmapped.erase(array);
    for (auto entry = all.levels.begin(); entry != all.levels.end();)
      entry = entry->second.whole == array ? all.levels.erase(entry) : std::next(entry);
  });
}

void note_texture_reference() noexcept {
  references.fetch_add(1, std::memory_order_relaxed);
}

namespace detail {
void lock_textures() noexcept {
  state().mutex.lock();
}
void unlock_textures() noexcept {
  state().mutex.unlock();
}
void forget_textures_after_fork() noexcept {
  Textures& all = state();
  all.objects.clear();
  all.mipmapped.clear();
  all.levels.clear();
}
}  // namespace detail

}  // namespace kerncap::cuda
