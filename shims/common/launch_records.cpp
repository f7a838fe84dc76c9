// The LAUNCH and COMPLETE records of a capture, and the TRACED record of a trace (docs/session.md).
#include <cstring>

#include "common/capture_steps.h"
#include "common/clock.h"
#include "common/text.h"

namespace kerncap {
namespace {

void write_dim(json::Writer& json, Key name, const Dim3& dim) {
  json.key(name).begin_array().value(dim.x).value(dim.y).value(dim.z).end();
}

const char* kind_name(RegionKind kind) {
  switch (kind) {
    case RegionKind::managed:
      return word::region_kind::managed;
    case RegionKind::host:
      return word::region_kind::host;
    case RegionKind::global:
      return word::region_kind::variable;
    case RegionKind::array:
      return word::region_kind::array;
    default:
      return word::region_kind::device;
  }
}

void write_array(json::Writer& json, const ArrayShape& shape) {
  json.key(key::array).begin_object().field(key::width, shape.width).field(key::height, shape.height);
  json.field(key::depth, shape.depth).field(key::format, shape.format).field(key::channels, shape.channels);
  json.field(key::flags, shape.flags).field(key::levels, shape.levels).end();
}

void write_regions(json::Writer& json, const std::vector<Region>& regions) {
  json.key(key::regions).begin_array();
  for (const Region& region : regions) {
    json.begin_object().field(key::base, region.base).field(key::size, region.size);
    json.field(key::kind, kind_name(region.kind))
        .field(key::device, region.device)
        .field(key::reason, region.reason);
    if (!region.shared.empty()) json.field(key::shared, region.shared);
    if (region.peer >= 0) {
      json.key(key::owner).begin_object().field(key::rank, region.peer);
      json.field(key::base, region.peer_base).end();
    }
    if (region.kind == RegionKind::global) {
      json.text_or_null(key::name, region.name);
      json.field(key::module, region.module);
    }
    if (region.kind == RegionKind::array) write_array(json, region.shape);
    json.end();
  }
  json.end();
}

void write_textures(json::Writer& json, const ReachableMemory& reachable) {
  auto bytes_or_null = [&](Key name, const std::vector<uint8_t>& bytes) {
    json.text_or_null(name, bytes.empty() ? std::string() : hex(bytes.data(), bytes.size()));
  };
  json.key(key::textures).begin_array();
  for (const TextureObject& texture : reachable.textures) {
    json.begin_object().field(key::handle, texture.handle).field(key::kind, texture.kind);
    json.field(key::reason, texture.reason).field(key::resource, texture.resource);
    if (texture.array != 0)
      json.field(key::region, static_cast<uint64_t>(texture.region));
    else
      json.null_field(key::region);
    json.field(key::level, texture.level).field(key::address, texture.address);
    json.field(key::format, texture.format).field(key::channels, texture.channels);
    json.field(key::width, texture.width).field(key::height, texture.height).field(key::pitch, texture.pitch);
    bytes_or_null(key::sampler, texture.sampler);
    bytes_or_null(key::view, texture.view);
    json.end();
  }
  json.end();
}

void write_closure(json::Writer& json, const ReachableMemory& reachable, const Conf& conf) {
  uint64_t included = conf.no_values ? 0 : reachable.included_bytes;
  json.key(key::closure)
      .begin_object()
      .field(key::mode, conf.memory)
      .field(key::consistency, word::consistency::gated);
  json.field(key::included_bytes, included);
  json.field(key::left_out_bytes, reachable.left_out_bytes + reachable.included_bytes - included);
  json.key(key::left_out).begin_array();
  if (conf.no_values) json.value("all contents (--no-values)");
  for (const std::string& name : reachable.left_out) json.value(name);
  json.end();
  if (!reachable.not_held.empty()) {
    json.key(key::not_held).begin_array();
    for (const std::string& what : reachable.not_held) json.value(what);
    json.end();
  }
  json.end();
}

void write_device(json::Writer& json, const DeviceFacts& facts) {
  json.key(key::device).begin_object().field(key::kind, facts.kind).field(key::name, facts.name);
  json.text_or_null(key::arch, facts.arch);
  json.field(key::ordinal, facts.ordinal).field(key::memory_bytes, facts.memory_bytes);
  json.text_or_null(key::driver, facts.driver);
  json.end();
}

void write_shape(json::Writer& json, const Launch& launch) {
  write_dim(json, key::grid, launch.grid);
  json.null_field(key::grid_source);
  write_dim(json, key::block, launch.block);
  if (launch.cluster.x == 0)
    json.null_field(key::cluster);
  else
    write_dim(json, key::cluster, launch.cluster);
  json.field(key::shared_bytes, launch.shared_bytes).field(key::cooperative, launch.cooperative);
  json.key(key::launch_attributes).begin_array();
  for (const LaunchAttribute& attribute : launch.attributes)
    json.begin_object()
        .field(key::id, attribute.id)
        .field(key::value, hex(attribute.value, sizeof attribute.value))
        .end();
  json.end();
}

void write_dispatch(json::Writer& json, const Dispatch& dispatch) {
  if (dispatch.dimensions == 0) return;
  json.key(key::dispatch).begin_object().key(key::work_items).begin_array();
  for (uint32_t count : dispatch.work_items) json.value(count);
  json.end().field(key::group_bytes, dispatch.group_bytes).field(key::private_bytes, dispatch.private_bytes);
  json.field(key::dimensions, dispatch.dimensions).field(key::kernel_object, dispatch.kernel_object).end();
}

void write_limits(json::Writer& json, const Limits& limits) {
  if (limits.stack_bytes == 0) return;
  json.key(key::limits).begin_object().field(key::stack_bytes, limits.stack_bytes);
  json.field(key::heap_bytes, limits.heap_bytes).field(key::print_bytes, limits.print_bytes);
  json.field(key::pending_launches, limits.pending_launches);
  if (limits.heap_in_use) json.field(key::heap_in_use, true);
  json.end();
}

void write_parameters(json::Writer& json, const Launch& launch) {
  json.key(key::parameters).begin_object().key(key::layout);
  if (launch.kernel->layout_known) {
    json.begin_array();
    for (const Parameter& p : launch.kernel->layout) json.begin_array().value(p.offset).value(p.size).end();
    json.end();
  } else {
    json.null();
  }
  json.field(key::bytes, hex(launch.parameters.data(), launch.parameters.size())).end();
}

// A name that another run gives the same memory: an address is no such.
std::string trace_name(const std::string& reason, size_t number) {
  return reason.compare(0, 12, "reached from") == 0 ? "memory " + std::to_string(number) : reason;
}

// The bytes of the parameters, less the addresses of what was hashed.
std::string without_addresses(const Launch& launch, const std::vector<Region>& regions) {
  std::string text = hex(launch.parameters.data(), launch.parameters.size());
  for (size_t at = 0; at + 8 <= launch.parameters.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, &launch.parameters[at], 8);
    for (const Region& region : regions)
      if (word - region.base < region.size) text.replace(2 * at, 16, 16, '-');
  }
  return text;
}

}  // namespace

const char* kind_of(const Image* image) {
  if (image == nullptr) return word::image_kind::unknown;
  switch (image->kind) {
    case Image::Kind::fatbin:
      return word::image_kind::fatbin;
    case Image::Kind::elf:
      return word::image_kind::elf;
    case Image::Kind::ptx:
      return word::image_kind::ptx;
    default:
      return word::image_kind::unknown;
  }
}

void write_image(json::Writer& json, const Kernel& kernel) {
  const Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  if (image == nullptr) {
    json.null();
    return;
  }
  json.begin_object().field(key::kind, kind_of(image)).field(key::origin, image->origin);
  const char* stored = image->stored.load();
  json.text_or_null(key::file, stored != nullptr ? stored : "");
  json.text_or_null(key::mapped_from, image->mapped_from).end();
}

void LaunchCapture::write_launch() {
  const Kernel& kernel = *launch_.kernel;
  json::Writer json;
  json.begin_object().field(key::launch, number_).field(key::mode, word::mode::native);
  json.key(key::kernel).begin_object().field(key::name, without_parameters(kernel.demangled));
  json.field(key::qualified_name, kernel.demangled).field(key::mangled, kernel.name).end();
  json.field(key::ordinal, wanted_.ordinal);
  if (wanted_.position >= 0) json.field(key::position, wanted_.position);
  if (conf_.is_span()) device_.write_order(json, launch_, process_.selection.is_range_counted());
  write_shape(json, launch_);
  write_dispatch(json, launch_.dispatch);
  write_limits(json, limits_);
  write_device(json, facts_);
  json.key(key::arguments).begin_array().end().key(key::options).begin_object().end();
  write_regions(json, reachable_.regions);
  if (!reachable_.textures.empty()) write_textures(json, reachable_);
  json.key(key::views).begin_array().end().key(key::pre);
  if (pre_file_ != nullptr && !conf_.no_values)
    pre_file_->describe(json);
  else
    json.null();
  json.key(key::pre_offsets).begin_array();
  if (layout_ != nullptr)
    for (uint64_t offset : layout_->offsets) json.value(offset);
  json.end();
  write_closure(json, reachable_, conf_);
  if (!conf_.no_values && reachable_.included_bytes > conf_.max_size) json.field(key::sparse, true);
  json.null_field(key::autotune).null_field(key::source);
  write_stack(json, key::python_stack, python_stack_);
  json.key(key::range).begin_array();
  for (const std::string& name : ranges::names_of(wanted_.range)) json.value(name);
  json.end();
  if (conf_.generation != 0) json.field(key::generation, conf_.generation);
  json.field(key::stream, device_.stream_text(launch_.stream)).field(key::route, launch_.route);
  write_parameters(json, launch_);
  json.key(key::image);
  write_image(json, kernel);
  if (!program_.empty()) json.field(key::program, program_);
  json.text_or_null(key::annotation, wanted_.choice.annotation);
  json.key(key::notes).begin_array();
  for (const std::string& note : reachable_.notes) json.value(note);
  json.end();
  if (collective_.is_joined()) {
    json.key(key::collective).begin_object().field(key::id, collective_.id());
    json.field(key::rank, collective_.rank()).field(key::ranks, collective_.ranks()).end();
  }
  json.field(key::time_ns, wall_ns());
  json.text_or_null(key::condition, conf_.condition() != nullptr ? conf_.condition() : "");
  json.end();
  recorded_ = process_.session.write(KERNCAP_RECORD_LAUNCH, json);
}

void LaunchCapture::write_traced(const std::string& error) {
  const Kernel& kernel = *launch_.kernel;
  const std::vector<Region>& regions = reachable_.regions;
  json::Writer json;
  json.begin_object().field(key::launch, number_).field(key::mode, word::mode::native);
  json.key(key::kernel).begin_object().field(key::name, without_parameters(kernel.demangled));
  json.field(key::qualified_name, kernel.demangled).field(key::mangled, kernel.name).end();
  json.field(key::ordinal, wanted_.ordinal);
  write_dim(json, key::grid, launch_.grid);
  json.key(key::arguments).begin_array().begin_object().field(key::name, "parameters");
  json.field(key::role, word::role::runtime).key(key::value).begin_object().field(key::kind, "str");
  json.field(key::value, without_addresses(launch_, regions)).end().end().end();
  json.key(key::options).begin_object().end().key(key::views).begin_array();
  for (size_t i = 0; i < regions.size(); ++i) {
    json.begin_object().field(key::region, static_cast<uint64_t>(i)).field(key::offset, 0);
    json.field(key::dtype, "uint8").field(key::itemsize, 1);
    json.key(key::shape).begin_array().value(regions[i].size).end().key(key::strides);
    json.begin_array().value(1).end().field(key::name, trace_name(regions[i].reason, i)).end();
  }
  json.end().key(key::hashed).begin_array();
  for (size_t i = 0; error.empty() && i < regions.size(); ++i) {
    uint64_t first = layout_->first_chunk[i], end = layout_->first_chunk[i + 1];
    json.begin_object().field(key::base, regions[i].base).field(key::size, regions[i].size);
    json.field(key::kind, kind_name(regions[i].kind));
    json.field(key::before, digest(&before_[first], end - first));
    json.field(key::after, digest(&now_[first], end - first));
    if (addresses_[i]) json.field(key::addresses, true);
    json.end();
  }
  json.end();
  if (python_stack_.size() > 1) python_stack_.erase(python_stack_.begin(), python_stack_.end() - 1);
  write_stack(json, key::python_stack, python_stack_);
  json.key(key::range).begin_array();
  for (const std::string& name : ranges::names_of(wanted_.range)) json.value(name);
  json.end().field(key::time_ns, launched_ns_).null_field(key::reason).text_or_null(key::error, error).end();
  recorded_ = process_.session.write(KERNCAP_RECORD_TRACED, json);
}

bool LaunchCapture::write_complete(Ending ending, const std::string& error) {
  static const char* const statuses[] = {word::status::complete, word::status::fault, word::status::timeout};
  const char* status = statuses[static_cast<int>(ending)];
  bool complete = ending == Ending::complete;
  const char* condition = conf_.condition();
  json::Writer json;
  json.begin_object().field(key::launch, number_).field(key::status, status);
  json.text_or_null(key::error, error);
  if (complete && duration_ns_ != 0)
    json.field(key::duration_ns, duration_ns_);
  else
    json.null_field(key::duration_ns);
  json.key(key::post);
  if (complete && post_file_ != nullptr)
    post_file_->describe(json);
  else
    json.null();
  json.key(key::chunks).begin_array();
  for (const Chunk& chunk : chunks_) json.begin_array().value(chunk.first).value(chunk.second).end();
  json.end().key(key::code).begin_array().end().key(key::compiled).begin_object().end();
  json.key(key::signature).begin_object().end().key(key::divisibility).begin_object().end();
  json.field(key::oracle, !complete              ? status
                          : condition != nullptr ? word::oracle::suspect
                                                 : word::oracle::trusted);
  json.text_or_null(key::condition, complete && condition != nullptr ? condition : "");
  json.text_or_null(key::detail, detail_);
  // A ring that is full loses what is oldest; each printf takes 256 bytes of it on an H100.
  if (complete && !text_.empty() && text_.size() <= limits_.print_bytes / 256)
    json.field(key::printed, text_);
  json.key(key::copy_ns).begin_object().field(key::pre, pre_ns_).field(key::post, post_ns_).end();
  json.field(key::keep, true).end();
  if (process_.session.write(KERNCAP_RECORD_COMPLETE, json)) return true;
  why_ = process_.session.refusal("its record");
  return false;
}

}  // namespace kerncap
