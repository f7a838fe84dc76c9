#include "common/reachable_memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "common/host_scan.h"
#include "common/peers.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t max_names = 8;
// Where a tensor map (128 bytes, found in parameters) holds an address, the upper bits may hold more.
constexpr uint64_t address_mask = (1ULL << 48) - 1;
constexpr size_t tensor_map_bytes = 128;
constexpr uint64_t largest_element = 16;  // bytes: a complex number in double precision

// Memory that is reached as one thing: an allocation, or neighbouring pieces of a reserved range,
// which a pointer crosses without noticing (cuMemMap, hsa_amd_vmem_map). Or the number of textures and
// surfaces, as one byte at that address, where no memory is.
struct Item {
  Allocation what;
  size_t first_piece = 0, pieces = 0;  // in the request's allocations; none for a kernel's global
  std::vector<size_t> textures;        // in the request's; none for memory
  size_t first_leaf = 0, leaves = 0;
  bool checked = false, readable = false, whole = false;
};

// A part of an item that is reached alone: a live block of an allocator's, or what is between them.
struct Leaf {
  Interval range;
  size_t item = 0;
  bool is_block = false, reached = false, weighed = false;
  uint64_t stored_bytes = 0;  // of a leaf that was reached
  std::string reason;
};

bool is_mapped_piece(const Allocation& a) {
  return std::strcmp(a.how, "cuMemMap") == 0 || std::strcmp(a.how, "hsa_amd_vmem_map") == 0;
}

bool continues(const Allocation& a, const Allocation& b) {
  return is_mapped_piece(a) && is_mapped_piece(b) && a.base + a.size == b.base && a.device == b.device &&
         a.shared == b.shared && a.owner == b.owner && a.peer == b.peer &&
         (a.peer < 0 || a.peer_base + a.size == b.peer_base);
}

class Finder {
 public:
  Finder(Device& device, const Launch& launch, ReachableMemoryRequest request, ReachableMemory* reachable)
      : device_(device), launch_(launch), request_(std::move(request)), out_(*reachable) {}

  bool run(std::string* why) {
    make_items();
    make_leaves();
    add_roots();
    bool good = request_.mode == Conf::Memory::reachable ? follow(why) : weigh(why);
    if (good) finish();
    return good;
  }

 private:
  void make_items() {
    std::vector<Allocation>& all = request_.allocations;
    for (const Allocation& global : request_.globals) {
      Item item;
      item.what = global;
      items_.push_back(item);
    }
    auto is_own_global = [&](const Allocation& a) {
      for (const Allocation& global : request_.globals)
        if (a.base < global.base + global.size && global.base < a.base + a.size) return true;
      return false;
    };
    for (size_t i = 0; i < all.size();) {
      Item item;
      item.what = all[i];
      item.first_piece = i;
      size_t end = i + 1;
      while (end < all.size() && continues(all[end - 1], all[end])) item.what.size += all[end++].size;
      item.pieces = end - i;
      i = end;
      if (!is_own_global(item.what)) items_.push_back(item);
    }
    add_textures();
    std::sort(items_.begin(), items_.end(),
              [](const Item& a, const Item& b) { return a.what.base < b.what.base; });
  }

  void add_textures() {
    std::map<uint64_t, std::vector<size_t>> by_handle;
    for (size_t i = 0; i < request_.textures.size(); ++i) by_handle[request_.textures[i].handle].push_back(i);
    for (const auto& [handle, numbers] : by_handle) {
      Item item;
      item.what.base = handle;
      item.what.size = 1;
      item.what.kind = RegionKind::array;
      item.textures = numbers;
      items_.push_back(item);
    }
  }

  void make_leaves() {
    struct Block {
      uint64_t base, end;
    };
    std::vector<Block> blocks;
    for (size_t i = 0; i + 2 < request_.mirror.size(); i += 3) {
      const uint64_t* triple = &request_.mirror[i];
      if (triple[2] != 0 && triple[1] != 0) blocks.push_back({triple[0], triple[0] + triple[1]});
    }
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.base < b.base; });
    size_t next = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      uint64_t at = item.what.base, end = at + item.what.size;
      item.first_leaf = leaves_.size();
      while (next < blocks.size() && blocks[next].base < at) ++next;
      for (; next < blocks.size() && blocks[next].base < end; ++next) {
        const Block& block = blocks[next];
        if (block.base < at || block.end > end) continue;  // no block of this allocation, then
        if (block.base > at) add_leaf(at, block.base, i, false);
        add_leaf(block.base, block.end, i, true);
        at = block.end;
      }
      if (at < end) add_leaf(at, end, i, false);
      item.leaves = leaves_.size() - item.first_leaf;
    }
    for (const Leaf& leaf : leaves_) table_.push_back(leaf.range);
    sources_.assign(table_.size());
  }

  void add_leaf(uint64_t base, uint64_t end, size_t item, bool is_block) {
    Leaf leaf;
    leaf.range = {base, end};
    leaf.item = item;
    leaf.is_block = is_block;
    leaves_.push_back(leaf);
  }

  // Asks the driver once for each item: what it no longer knows must not be touched.
  bool is_readable(Item& item) {
    if (!item.textures.empty()) return true;
    if (item.checked) return item.readable;
    item.checked = true;
    item.readable = item.pieces > 0 || device_.is_readable(item.what);
    for (size_t i = 0; i < item.pieces && item.readable; ++i)
      item.readable = device_.is_readable(request_.allocations[item.first_piece + i]);
    if (!item.readable)
      out_.notes.push_back("memory at " + address_text(item.what.base) + " (" + size_text(item.what.size) +
                           ") can't be read by this process and was left out");
    return item.readable;
  }

  // A load from multicast memory has no answer, and must not be tried.
  bool can_be_held(Item& item, const std::string& reason) {
    if (item.what.shared != Shared::multicast) return true;
    if (!item.checked)
      out_.not_held.push_back(reason + ": " + size_text(item.what.size) + " at " +
                              address_text(item.what.base) + ", " + peers::sharing(item.what));
    item.checked = true;
    return false;
  }

  void reach(size_t leaf_number, const std::string& reason) {
    Leaf& leaf = leaves_[leaf_number];
    Item& item = items_[leaf.item];
    if (leaf.reached || !can_be_held(item, reason) || !is_readable(item)) return;
    if (leaf.is_block) {
      take(leaf_number, reason);
      return;
    }
    item.whole = true;
    for (size_t i = 0; i < item.leaves; ++i)
      if (!leaves_[item.first_leaf + i].reached) take(item.first_leaf + i, reason);
  }

  void take(size_t leaf_number, const std::string& reason) {
    Leaf& leaf = leaves_[leaf_number];
    leaf.reached = true;
    leaf.reason = reason;
    order_.push_back(leaf_number);
    const std::vector<size_t>& textures = items_[leaf.item].textures;
    leaf.stored_bytes = textures.empty() ? leaf.range.end - leaf.range.base : array_bytes(textures);
    stored_bytes_ += leaf.stored_bytes;
    for (size_t number : textures) take_texture(request_.textures[number], reason);
  }

  void take_texture(TextureObject& texture, const std::string& reason) {
    std::string name = texture.kind + (" object " + std::to_string(texture.handle));
    texture.reason = reason;
    if (texture.problem.empty()) {
      out_.textures.push_back(texture);
      if (texture.array == 0) reach_address(texture.address, name);
      return;
    }
    std::string problem = name + ", which a reproducer can't hold: " + texture.problem;
    if (reason.compare(0, 9, "parameter") == 0)
      out_.refusal = reason + " may be " + problem;
    else
      out_.notes.push_back("It may use " + problem + ".");
  }

  // Of the arrays that no other object has brought in.
  uint64_t array_bytes(const std::vector<size_t>& textures) {
    uint64_t bytes = 0;
    for (size_t number : textures) {
      const TextureObject& texture = request_.textures[number];
      if (texture.problem.empty() && texture.array != 0 && arrays_.insert(texture.array).second)
        bytes += texture.shape.size;
    }
    return bytes;
  }

  // With more than `max_size` reached, an allocator's arena is in it as a rule, most of it never written:
  // at the speed of the device's memory it is found out what is not zero.
  bool weigh(std::string* why) {
    if (request_.chunk_bytes == 0) return true;
    for (size_t i = 0; i < order_.size() && stored_bytes_ > request_.max_size; ++i) {
      Leaf& leaf = leaves_[order_[i]];
      const Allocation& what = items_[leaf.item].what;
      if (leaf.weighed || what.kind != RegionKind::device || leaf.range.base % 8 != 0) continue;
      if (!device_.has_kernels(what.device)) continue;
      leaf.weighed = true;
      uint64_t size = leaf.range.end - leaf.range.base, chunk = request_.chunk_bytes;
      std::vector<Fingerprint> prints((size + chunk - 1) / chunk);
      if (!device_.fingerprints(what.device, {{leaf.range.base, size, prints.data()}},
                                request_.chunk_bytes)) {
        *why = "looking for zeros: " + device_.error_text(device_.status());
        return false;
      }
      stored_bytes_ -= leaf.stored_bytes;
      leaf.stored_bytes = 0;
      for (size_t at = 0; at < prints.size(); ++at)
        if (prints[at].any != 0) leaf.stored_bytes += std::min(chunk, size - at * chunk);
      stored_bytes_ += leaf.stored_bytes;
    }
    return true;
  }

  void reach_address(uint64_t address, const std::string& reason) {
    size_t found = find_interval(table_, address);
    if (found < leaves_.size()) reach(found, reason);
  }

  // Arrays whose indices begin at 1 are passed as the address of the element before the first, which lies
  // in the allocation before, if in any.
  void reach_array_from_1(uint64_t address, const std::string& reason) {
    auto above = [](uint64_t left, const Interval& right) { return left < right.base; };
    size_t next =
        static_cast<size_t>(std::upper_bound(table_.begin(), table_.end(), address, above) - table_.begin());
    if (next == table_.size() || !items_[leaves_[next].item].textures.empty()) return;
    uint64_t before = table_[next].base - address;
    bool is_element = before <= largest_element && (before & (before - 1)) == 0 && address % before == 0;
    if (is_element) reach(next, reason + ", which is " + std::to_string(before) + " bytes before it");
  }

  void add_roots() {
    const Kernel& kernel = *launch_.kernel;
    size_t step = kernel.layout_known ? 8 : 4;
    if (!request_.has_roots) add_roots(0, launch_.parameters.size(), step, kernel.layout);
    for (const Parameter& root : request_.roots)
      add_roots(root.offset, uint64_t{root.offset} + root.size, step, request_.roots);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Item& item = items_[leaves_[i].item];
      if (item.pieces == 0 && item.textures.empty()) reach(i, "global " + item.what.name);
      if (item.what.shared == Shared::exported && request_.has_owners) reach(i, "another rank has it");
      if (request_.mode == Conf::Memory::all) reach(i, "all memory");
    }
  }

  void add_roots(size_t first, size_t end, size_t step, const std::vector<Parameter>& layout) {
    const std::vector<uint8_t>& bytes = launch_.parameters;
    end = std::min(end, bytes.size());
    for (size_t at = first; at + 8 <= end; at += step) {
      uint64_t word;
      std::memcpy(&word, &bytes[at], 8);
      if (word == 0) continue;
      std::string reason = parameter_reason(layout, at);
      reach_address(word, reason);
      reach_array_from_1(word, reason);
      if (bytes.size() >= tensor_map_bytes && at % 8 == 0 && (word & ~address_mask) != 0)
        reach_address(word & address_mask, reason);
    }
  }

  static std::string parameter_reason(const std::vector<Parameter>& layout, size_t at) {
    for (size_t i = 0; i < layout.size(); ++i) {
      const Parameter& p = layout[i];
      if (at < p.offset || at - p.offset >= p.size) continue;
      std::string text = "parameter " + std::to_string(i);
      return at == p.offset ? text : text + " at byte " + std::to_string(at - p.offset);
    }
    return "parameters at byte " + std::to_string(at);
  }

  // Breadth first, one level of new leaves at a time.
  bool follow(std::string* why) {
    size_t done = 0;
    while (done < order_.size()) {
      if (!weigh(why)) return false;
      if (stored_bytes_ > request_.max_size) {
        out_.unfinished = true;
        return true;
      }
      size_t level_end = order_.size();
      if (!scan_level(done, level_end, why)) return false;
      done = level_end;
      for (size_t i = 0; i < leaves_.size(); ++i)
        if (!leaves_[i].reached && sources_.at(i) != HostSources::none)
          reach(i, "reached from " + address_text(sources_.at(i)));
    }
    return true;
  }

  bool scan_level(size_t first, size_t end, std::string* why) {
    std::vector<ScanRange> on_host;
    std::map<int, std::vector<ScanRange>> on_device;
    for (size_t i = first; i < end; ++i) {
      const Leaf& leaf = leaves_[order_[i]];
      const Allocation& what = items_[leaf.item].what;
      ScanRange range;
      range.address = (leaf.range.base + 7) & ~7ULL;
      if (leaf.range.end < range.address + 8) continue;
      range.words = (leaf.range.end - range.address) / 8;
      range.device = what.device;
      range.is_host = what.kind == RegionKind::host;
      if (what.kind == RegionKind::device && device_.has_kernels(what.device) && can_scan_on(what.device))
        on_device[what.device].push_back(range);
      else
        on_host.push_back(range);
    }
    for (auto& [ordinal, ranges] : on_device)
      if (!scan_on_device(ordinal, ranges, why)) return false;
    return on_host.empty() || host_scan(device_, table_, on_host, &sources_, why);
  }

  bool can_scan_on(int ordinal) {
    auto known = scanning_.find(ordinal);
    if (known == scanning_.end())
      known = scanning_.emplace(ordinal, device_.begin_scan(ordinal, table_)).first;
    return known->second;
  }

  bool scan_on_device(int ordinal, const std::vector<ScanRange>& ranges, std::string* why) {
    bool good = true;
    for (const ScanRange& range : ranges) good = good && device_.scan(ordinal, range.address, range.words);
    std::vector<uint64_t> found;
    if (!good || !device_.end_scan(ordinal, &found)) {
      *why = "looking for pointers: " + device_.error_text(device_.status());
      return false;
    }
    for (size_t i = 0; i < found.size() && i < leaves_.size(); ++i) sources_.lower(i, found[i]);
    return true;
  }

  void finish() {
    std::vector<bool> written(items_.size(), false);
    for (size_t number : order_) {
      const Leaf& leaf = leaves_[number];
      const Item& item = items_[leaf.item];
      if (item.whole && written[leaf.item]) continue;
      written[leaf.item] = true;
      if (!item.textures.empty()) {
        out_.included_bytes += leaf.stored_bytes;
        continue;
      }
      Region region;
      region.base = item.whole ? item.what.base : leaf.range.base;
      region.size = item.whole ? item.what.size : leaf.range.end - leaf.range.base;
      region.kind = item.what.kind;
      region.device = item.what.kind == RegionKind::host ? -1 : item.what.device;
      region.reason = leaf.reason;
      region.name = item.what.name;
      region.shared = peers::sharing(item.what);
      if (item.what.shared == Shared::exported && request_.has_owners)
        region.shared = std::string("memory that other ranks may have, too (") + item.what.how + ")";
      region.peer = item.what.peer;
      region.peer_base = item.what.peer_base + (region.base - item.what.base);
      region.module = module_number(item.what);
      out_.included_bytes += region.size;
      out_.regions.push_back(region);
    }
    out_.stored_bytes = stored_bytes_;
    name_left_out();
  }

  unsigned module_number(const Allocation& what) {
    if (what.kind != RegionKind::global || what.module == launch_.kernel->module) return 0;
    auto found = modules_.emplace(what.module, static_cast<unsigned>(modules_.size() + 1));
    return found.first->second;
  }

  void name_left_out() {
    std::vector<Interval> left;
    for (const Item& item : items_) {
      if (item.whole || !item.textures.empty()) continue;
      for (size_t i = 0; i < item.leaves; ++i) {
        const Leaf& leaf = leaves_[item.first_leaf + i];
        if (leaf.reached) continue;
        left.push_back(leaf.range);
        out_.left_out_bytes += leaf.range.end - leaf.range.base;
      }
    }
    auto by_size = [](const Interval& a, const Interval& b) { return a.end - a.base > b.end - b.base; };
    size_t shown = std::min(left.size(), max_names);
    std::partial_sort(left.begin(), left.begin() + static_cast<ptrdiff_t>(shown), left.end(), by_size);
    for (size_t i = 0; i < shown; ++i)
      out_.left_out.push_back(size_text(left[i].end - left[i].base) + " at " + address_text(left[i].base));
    if (left.size() > shown) out_.left_out.push_back(std::to_string(left.size() - shown) + " more");
  }

  Device& device_;
  const Launch& launch_;
  ReachableMemoryRequest request_;
  ReachableMemory& out_;
  std::vector<Item> items_;
  std::vector<Leaf> leaves_;
  std::vector<Interval> table_;  // the leaves' ranges
  HostSources sources_;
  std::vector<size_t> order_;  // leaves as they were reached
  uint64_t stored_bytes_ = 0;
  std::set<uint64_t> arrays_;  // that are counted
  std::map<int, bool> scanning_;
  std::map<const void*, unsigned> modules_;
};

}  // namespace

bool find_reachable_memory(Device& device, const Launch& launch, ReachableMemoryRequest request,
                           ReachableMemory* reachable, std::string* why) {
  return Finder(device, launch, std::move(request), reachable).run(why);
}

std::string describe_sizes(const std::vector<Region>& regions) {
  std::vector<const Region*> largest;
  for (const Region& region : regions) largest.push_back(&region);
  std::sort(largest.begin(), largest.end(),
            [](const Region* a, const Region* b) { return a->size > b->size; });
  std::string text;
  for (size_t i = 0; i < largest.size() && i < max_names; ++i)
    text += (i == 0 ? "" : "; ") + largest[i]->reason + ": " + size_text(largest[i]->size) + " at " +
            address_text(largest[i]->base);
  return text;
}

}  // namespace kerncap
