#include "common/kept_images.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "common/hash.h"

namespace kerncap::images {
namespace {

struct Result {
  size_t size;
  Fingerprint print;
  std::shared_ptr<const RuntimeProgram> program;
  const char* origin;
};

struct Known {
  std::mutex mutex;
  std::vector<Result> results;
  std::multimap<size_t, std::pair<Fingerprint, Image*>> copies;  // by size
  std::map<const uint8_t*, Image*> mapped;
  size_t copied = 0;
};

Known& known() noexcept {
  static auto* instance = new Known;  // never destroyed
  return *instance;
}

Image* made(Image::Kind kind, const uint8_t* data, size_t size, std::string origin) {
  auto* image = new Image;
  image->kind = kind;
  image->data = data;
  image->size = size;
  image->origin = std::move(origin);
  return image;
}

Result* result_with(Known& all, size_t size, const Fingerprint& print) noexcept {
  for (Result& result : all.results)
    if (result.size == size && result.print == print) return &result;
  return nullptr;
}

}  // namespace

Image* unknown(const char* why) {
  return made(Image::Kind::unknown, nullptr, 0, why);
}

Image* mapped(Image::Kind kind, const uint8_t* data, size_t size, std::string file) {
  Known& all = known();
  std::lock_guard<std::mutex> lock(all.mutex);
  Image*& image = all.mapped[data];
  // A library that was unloaded leaves its address to another one.
  if (image == nullptr || image->size != size || image->mapped_from != file) {
    image = made(kind, data, size, "");
    image->mapped_from = std::move(file);
  }
  return image;
}

Image* copied(Image::Kind kind, const uint8_t* data, size_t size, const std::string& origin) {
  Known& all = known();
  Fingerprint print = fingerprint(data, size);
  std::lock_guard<std::mutex> lock(all.mutex);
  auto range = all.copies.equal_range(size);
  for (auto entry = range.first; entry != range.second; ++entry)
    if (entry->second.first == print) return entry->second.second;
  if (all.copied + size > copied_limit) return unknown("not kept: more than 1 GiB of images in memory");
  auto* bytes = new uint8_t[size + 1];
  std::memcpy(bytes, data, size);
  bytes[size] = 0;
  all.copied += size;
  const Result* result = result_with(all, size, print);
  Image* image = made(kind, bytes, size, result != nullptr ? result->origin : origin);
  all.copies.emplace(size, std::make_pair(print, image));
  return image;
}

void remember_result(const uint8_t* data, size_t size, const RuntimeProgram* program,
                     const char* origin) noexcept try {
  Known& all = known();
  Result result{size, fingerprint(data, size), nullptr, origin};
  if (program != nullptr) result.program = std::make_shared<const RuntimeProgram>(*program);
  std::lock_guard<std::mutex> lock(all.mutex);
  // One program compiled twice gives the same bytes twice.
  Result* old = result_with(all, size, result.print);
  if (old != nullptr)
    *old = std::move(result);
  else
    all.results.push_back(std::move(result));
} catch (const std::bad_alloc&) {
  // Its source stays unknown.
}

bool program_of(const uint8_t* data, size_t size, RuntimeProgram* program) noexcept {
  if (data == nullptr || size == 0) return false;
  Known& all = known();
  std::lock_guard<std::mutex> lock(all.mutex);
  const Result* found = nullptr;
  for (const Result& result : all.results)
    if (result.size == size) {  // only then are the bytes read
      found = result_with(all, size, fingerprint(data, size));
      break;
    }
  if (found == nullptr || found->program == nullptr) return false;
  *program = *found->program;
  return true;
}

void lock() noexcept {
  known().mutex.lock();
}
void unlock() noexcept {
  known().mutex.unlock();
}

}  // namespace kerncap::images
