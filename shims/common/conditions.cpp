// --when nonfinite and --when differs: a launch is judged by what it left in memory.
#include <algorithm>
#include <cstring>

#include "common/capture_steps.h"
#include "common/element_type.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr unsigned again_rounds = 2;
constexpr size_t most_counted = 64;  // chunks whose differing bytes are counted one by one

struct Named {
  const char* spelling;
  ElementType type;
};

constexpr ElementType half_type{"float16", 2, 0x7C00, 0x03FF};
constexpr ElementType bfloat_type{"bfloat16", 2, 0x7F80, 0x007F};
constexpr ElementType float_type{"float32", 4, 0x7F800000, 0x007FFFFF};
constexpr ElementType double_type{"float64", 8, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF};

// As compilers, CUDA's headers, torch and Triton spell them; vectors are their elements.
constexpr Named spellings[] = {
    {"float", float_type},
    {"float1", float_type},
    {"float2", float_type},
    {"float3", float_type},
    {"float4", float_type},
    {"double", double_type},
    {"double1", double_type},
    {"double2", double_type},
    {"double3", double_type},
    {"double4", double_type},
    {"__half", half_type},
    {"__half2", half_type},
    {"half", half_type},
    {"_Float16", half_type},
    {"c10::Half", half_type},
    {"cutlass::half_t", half_type},
    {"__nv_bfloat16", bfloat_type},
    {"__nv_bfloat162", bfloat_type},
    {"__bf16", bfloat_type},
    {"c10::BFloat16", bfloat_type},
    {"cutlass::bfloat16_t", bfloat_type},
    {"fp16", half_type},
    {"bf16", bfloat_type},
    {"fp32", float_type},
    {"fp64", double_type},
};

std::vector<Chunk> differing(const Layout& layout, const Prints& a, const Prints& b) {
  std::vector<Chunk> chunks;
  for (uint32_t region = 0; region < layout.regions.size(); ++region)
    for (uint64_t chunk = 0; chunk < layout.chunks_of(region); ++chunk)
      if (a[layout.index({region, chunk})] != b[layout.index({region, chunk})])
        chunks.push_back({region, chunk});
  return chunks;
}

uint64_t load(const uint8_t* bytes, uint32_t size) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, size);
  return value;
}

struct Found {
  uint64_t count = 0, first = 0;  // element, counted from the pointer
  uint64_t bits = 0;
};

// Elements of a chunk that are not finite now and had other bits before; `begin` is the first element
// in the chunk that the pointer reaches.
void count_nonfinite(const ElementType& type, const uint8_t* now, const uint8_t* before, uint32_t begin,
                     uint32_t size, uint64_t first_element, Found* found) {
  for (uint32_t at = begin; at + type.size <= size; at += type.size) {
    uint64_t bits = load(now + at, type.size);
    if ((bits & type.exponent_mask) != type.exponent_mask) continue;
    if (before != nullptr && load(before + at, type.size) == bits) continue;
    if (found->count++ == 0) {
      found->first = first_element + (at - begin) / type.size;
      found->bits = bits;
    }
  }
}

std::string nonfinite_text(const ElementType& type, const Found& found, size_t parameter) {
  bool is_nan = (found.bits & type.fraction_mask) != 0;
  bool negative = (found.bits >> (type.size * 8 - 1)) != 0;
  return "parameter " + std::to_string(parameter) + "[" + std::to_string(found.first) + "] = " +
         (is_nan     ? "nan"
          : negative ? "-inf"
                     : "inf") +
         ", " + std::to_string(found.count) + " element" + (found.count == 1 ? "" : "s");
}

}  // namespace

ElementType pointed_type(const std::string& parameter_type) {
  std::string name = parameter_type;
  bool is_pointer = false;
  if (!name.empty() && name[0] == '*') {
    is_pointer = true;
    name.erase(0, 1);
  }
  auto strip = [&](const std::string& end) {
    if (name.size() < end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0)
      return false;
    name.resize(name.size() - end.size());
    return true;
  };
  for (bool again = true; again;) {
    again = strip(" __restrict__") || strip(" const") || strip(" volatile") || strip(" ");
    if (!is_pointer && strip("*")) is_pointer = again = true;
  }
  if (!is_pointer) return {};
  for (const Named& named : spellings)
    if (name == named.spelling) return named.type;
  return {};
}

bool LaunchCapture::judge_nonfinite(bool* keep) {
  std::vector<std::string> types;
  std::string given = wanted_.chosen ? process_.types_of(wanted_.choice.token) : std::string();
  if (!given.empty())
    types = split_all(given, ',');
  else if (!parameter_types(launch_.kernel->demangled, &types)) {
    why_ = "--when nonfinite can't judge it: its parameter types are not in its name";
    return false;
  }
  if (!parameters_known_ || parameters_.size() < types.size()) {
    why_ = "--when nonfinite can't judge it: the driver does not say where its parameters are";
    return false;
  }
  std::vector<Chunk> changed;
  if (!find_changed(device_, *layout_, pre_->prints(), nullptr, nullptr, &changed, nullptr, &why_))
    return false;
  for (size_t i = 0; i < types.size(); ++i)
    if (!judge_parameter(i, pointed_type(types[i]), changed)) return false;
  *keep = !detail_.empty();
  return true;
}

bool LaunchCapture::judge_parameter(size_t number, const ElementType& type,
                                    const std::vector<Chunk>& changed) {
  const Parameter& parameter = parameters_[number];
  if (type.size == 0 || parameter.size != 8 || parameter.offset + 8 > launch_.parameters.size()) return true;
  uint64_t pointer = load(&launch_.parameters[parameter.offset], 8);
  uint32_t chunk_bytes = layout_->chunk_bytes;
  std::vector<uint8_t> now(chunk_bytes), before(chunk_bytes);
  Found found;
  for (const Chunk& chunk : changed) {
    const Region& region = layout_->regions[chunk.first];
    uint64_t start = region.base + chunk.second * chunk_bytes;
    uint32_t size = layout_->size_of(chunk);
    if (pointer < region.base || pointer >= region.base + region.size || pointer >= start + size) continue;
    // An element never lies across two chunks: a chunk's size is a multiple of every element's.
    uint64_t misaligned = (pointer - region.base) % type.size;
    uint32_t begin =
        pointer > start ? static_cast<uint32_t>(pointer - start) : static_cast<uint32_t>(misaligned);
    uint64_t element = (start + begin - pointer) / type.size;
    Found suspected;
    if (!read_now(device_, *layout_, chunk, now.data(), &why_)) return false;
    count_nonfinite(type, now.data(), nullptr, begin, size, element, &suspected);
    if (suspected.count == 0) continue;
    if (!pre_->read(chunk, pre_file_.get(), before.data(), &why_)) return false;
    Found here;
    count_nonfinite(type, now.data(), before.data(), begin, size, element, &here);
    if (here.count > 0 && (found.count == 0 || here.first < found.first)) {
      found.first = here.first;
      found.bits = here.bits;
    }
    found.count += here.count;
  }
  if (found.count > 0) detail_ += (detail_.empty() ? "" : "; ") + nonfinite_text(type, found, number);
  return true;
}

// Launches again from the same pre-state, each time beside other work: what depends on the order in which
// threads run shows more often than on an idle device. The first run's result is what the target ends with.
bool LaunchCapture::judge_differs(bool* keep) {
  Snapshot first(device_, *layout_);
  SnapshotFile file;
  if (!first.measure(&why_) || !first.clone(&why_)) return false;
  bool needs_file = !first.is_cloned();
  if (needs_file && !file.create(process_.session, std::to_string(number_) + ".after", layout_->size, &why_))
    return false;
  bool good = !needs_file || first.save(file, nullptr, &why_);
  for (unsigned round = 0; good && !*keep && round < again_rounds; ++round)
    good = run_again(first, file, round, keep);
  file.remove();
  return good;
}

bool LaunchCapture::run_again(Snapshot& first, SnapshotFile& file, unsigned round, bool* keep) {
  std::vector<Chunk> changed = differing(*layout_, pre_->prints(), first.prints()), differ;
  if (!pre_->restore(changed, pre_file_.get(), &why_)) {
    std::string ignored;
    first.restore(changed, &file, &ignored);
    return false;
  }
  device_.disturb(round);
  leave();
  int status = real_.again();
  if (!enter()) return false;
  std::string what;
  Poll poll = wait_for_idle(&what);
  bool ran = status == 0 && poll == Poll::done;
  if (!ran) {
    why_ = "launched again, it " + (status != 0            ? "was refused: " + device_.error_text(status)
                                    : poll == Poll::failed ? "failed: " + what
                                                           : "did not finish: " + what);
    if (poll == Poll::pending) return false;  // it still runs: nothing can be put back under it
  }
  std::string why;
  bool good = find_changed(device_, *layout_, first.prints(), nullptr, nullptr, &differ, nullptr, &why);
  if (good && ran) good = describe_difference(first, &file, differ, &why);
  // Whatever was found, the application's own result comes back.
  if (!first.restore(good ? differ : changed, &file, &why)) good = false;
  if (!good && why_.empty()) why_ = why;
  *keep = !differ.empty();
  return good && ran;
}

bool LaunchCapture::describe_difference(Snapshot& first, const SnapshotFile* file,
                                        const std::vector<Chunk>& chunks, std::string* why) {
  if (chunks.empty()) return true;
  std::vector<Chunk> sorted = chunks;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint8_t> then(layout_->chunk_bytes), now(layout_->chunk_bytes);
  uint64_t bytes = 0, where = 0;
  uint32_t region = 0;
  for (size_t i = 0; i < sorted.size() && i < most_counted; ++i) {
    if (!first.read(sorted[i], file, then.data(), why)) return false;
    if (!read_now(device_, *layout_, sorted[i], now.data(), why)) return false;
    for (uint32_t at = 0; at < layout_->size_of(sorted[i]); ++at) {
      if (then[at] == now[at]) continue;
      if (bytes++ > 0) continue;
      region = sorted[i].first;
      where = sorted[i].second * layout_->chunk_bytes + at;
    }
  }
  detail_ = (sorted.size() > most_counted ? "at least " : "") + std::to_string(bytes) + " byte" +
            (bytes == 1 ? " differs" : "s differ") + " in " + std::to_string(sorted.size()) + " chunk" +
            (sorted.size() == 1 ? "" : "s") + ", first at byte " + std::to_string(where) +
            " of the region of " + layout_->regions[region].reason;
  return true;
}

}  // namespace kerncap
