// The LAUNCH and COMPLETE records of a capture (docs/session.md).
#include "common/clock.h"
#include "common/shot.h"
#include "common/text.h"

namespace kerncap {
namespace {

void write_dim(json::Writer& json, const char* name, const Dim3& dim) {
  json.key(name).begin_array().value(dim.x).value(dim.y).value(dim.z).end();
}

void text_or_null(json::Writer& json, const char* name, const std::string& text) {
  if (text.empty())
    json.null_field(name);
  else
    json.field(name, text);
}

const char* kind_name(RegionKind kind) {
  switch (kind) {
    case RegionKind::managed:
      return "managed";
    case RegionKind::host:
      return "host";
    case RegionKind::global:
      return "global";
    default:
      return "device";
  }
}

const char* kind_name(Image::Kind kind) {
  switch (kind) {
    case Image::Kind::fatbin:
      return "fatbin";
    case Image::Kind::elf:
      return "elf";
    case Image::Kind::ptx:
      return "ptx";
    default:
      return "unknown";
  }
}

void write_regions(json::Writer& json, const std::vector<Region>& regions) {
  json.key("regions").begin_array();
  for (const Region& region : regions) {
    json.begin_object().field("base", region.base).field("size", region.size);
    json.field("kind", kind_name(region.kind)).field("device", region.device).field("reason", region.reason);
    if (region.kind == RegionKind::global) {
      text_or_null(json, "name", region.name);
      json.field("module", region.module);
    }
    json.end();
  }
  json.end();
}

void write_closure(json::Writer& json, const Closure& closure, const Conf& conf) {
  const char* mode = conf.memory == Conf::Memory::args  ? "args"
                     : conf.memory == Conf::Memory::all ? "all"
                                                        : "reachable";
  uint64_t included = conf.no_values ? 0 : closure.included_bytes;
  json.key("closure").begin_object().field("mode", mode).field("consistency", "gated");
  json.field("included_bytes", included);
  json.field("left_out_bytes", closure.left_out_bytes + closure.included_bytes - included);
  json.key("left_out").begin_array();
  if (conf.no_values) json.value("all contents (--no-values)");
  for (const std::string& name : closure.left_out) json.value(name);
  json.end().end();
}

void write_device(json::Writer& json, const DeviceFacts& facts) {
  json.key("device").begin_object().field("kind", facts.kind).field("name", facts.name);
  text_or_null(json, "arch", facts.arch);
  json.field("ordinal", facts.ordinal).field("memory_bytes", facts.memory_bytes);
  text_or_null(json, "driver", facts.driver);
  json.end();
}

void write_shape(json::Writer& json, const Launch& launch) {
  write_dim(json, "grid", launch.grid);
  json.null_field("grid_source");
  write_dim(json, "block", launch.block);
  if (launch.cluster.x == 0)
    json.null_field("cluster");
  else
    write_dim(json, "cluster", launch.cluster);
  json.field("shared_bytes", launch.shared_bytes).field("cooperative", launch.cooperative);
  json.key("launch_attributes").begin_array();
  for (const LaunchAttribute& attribute : launch.attributes)
    json.begin_object()
        .field("id", attribute.id)
        .field("value", hex(attribute.value, sizeof attribute.value))
        .end();
  json.end();
}

void write_dispatch(json::Writer& json, const Dispatch& dispatch) {
  if (dispatch.dimensions == 0) return;
  json.key("dispatch").begin_object().key("work_items").begin_array();
  for (uint32_t count : dispatch.work_items) json.value(count);
  json.end().field("group_bytes", dispatch.group_bytes).field("private_bytes", dispatch.private_bytes);
  json.field("dimensions", dispatch.dimensions).end();
}

void write_parameters(json::Writer& json, const Launch& launch) {
  json.key("parameters").begin_object().key("layout");
  if (launch.kernel->layout_known) {
    json.begin_array();
    for (const Parameter& p : launch.kernel->layout) json.begin_array().value(p.offset).value(p.size).end();
    json.end();
  } else {
    json.null();
  }
  json.field("bytes", hex(launch.parameters.data(), launch.parameters.size())).end();
}

}  // namespace

void Shot::write_image(json::Writer& json) {
  json.key("image");
  const Image* image = launch_.kernel->module != nullptr ? launch_.kernel->module->image : nullptr;
  if (image == nullptr) {
    json.null();
    return;
  }
  json.begin_object().field("kind", kind_name(image->kind)).field("origin", image->origin);
  const char* stored = image->stored.load();
  text_or_null(json, "file", stored != nullptr ? stored : "");
  text_or_null(json, "mapped_from", image->mapped_from);
  json.end();
}

void Shot::write_launch() {
  const Kernel& kernel = *launch_.kernel;
  json::Writer json;
  json.begin_object().field("launch", number_).field("mode", "native");
  json.key("kernel").begin_object().field("name", without_parameters(kernel.demangled));
  json.field("qualified_name", kernel.demangled).field("mangled", kernel.name).end();
  json.field("ordinal", wanted_.ordinal);
  write_shape(json, launch_);
  write_dispatch(json, launch_.dispatch);
  write_device(json, facts_);
  json.key("arguments").begin_array().end().key("options").begin_object().end();
  write_regions(json, closure_.regions);
  json.key("views").begin_array().end().key("pre");
  if (pre_file_ != nullptr && !conf_.no_values)
    pre_file_->describe(json);
  else
    json.null();
  json.key("pre_offsets").begin_array();
  if (layout_ != nullptr)
    for (uint64_t offset : layout_->offsets) json.value(offset);
  json.end();
  write_closure(json, closure_, conf_);
  json.null_field("autotune").null_field("source");
  write_stack(json, "python_stack", python_stack_);
  json.key("range").begin_array();
  for (const std::string& name : ranges::names_of(wanted_.range)) json.value(name);
  json.end();
  if (conf_.generation != 0) json.field("generation", conf_.generation);
  json.field("stream", device_.stream_text(launch_.stream)).field("route", launch_.route);
  write_parameters(json, launch_);
  write_image(json);
  if (!program_.empty()) json.field("nvrtc", program_);
  text_or_null(json, "annotation", wanted_.choice.annotation);
  json.key("notes").begin_array();
  for (const std::string& note : closure_.notes) json.value(note);
  json.end().field("time_ns", wall_ns());
  text_or_null(json, "condition", conf_.condition() != nullptr ? conf_.condition() : "");
  json.end();
  recorded_ = engine_.session.write(KERNCAP_RECORD_LAUNCH, json);
}

bool Shot::write_complete(Ending ending, const std::string& error) {
  static const char* const statuses[] = {"complete", "fault", "timeout"};
  const char* status = statuses[static_cast<int>(ending)];
  bool complete = ending == Ending::complete;
  const char* condition = conf_.condition();
  json::Writer json;
  json.begin_object().field("launch", number_).field("status", status);
  text_or_null(json, "error", error);
  if (complete)
    json.field("duration_ns", duration_ns_);
  else
    json.null_field("duration_ns");
  json.key("post");
  if (complete && post_file_ != nullptr)
    post_file_->describe(json);
  else
    json.null();
  json.key("chunks").begin_array();
  for (const Chunk& chunk : chunks_) json.begin_array().value(chunk.first).value(chunk.second).end();
  json.end().key("code").begin_array().end().key("compiled").begin_object().end();
  json.key("signature").begin_object().end().key("divisibility").begin_object().end();
  json.field("oracle", !complete ? status : condition != nullptr ? "suspect" : "trusted");
  text_or_null(json, "condition", complete && condition != nullptr ? condition : "");
  text_or_null(json, "detail", detail_);
  json.key("copy_ns").begin_object().field("pre", pre_ns_).field("post", post_ns_).end();
  json.field("keep", true).end();
  if (engine_.session.write(KERNCAP_RECORD_COMPLETE, json)) return true;
  why_ = engine_.session.refusal("its record");
  return false;
}

}  // namespace kerncap
