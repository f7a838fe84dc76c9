// The capture, replaced by counters that the clients read: what is tested here is how calls reach the
// wrappers, and what the wrappers do with them.
#include "common/capture.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "common/memory_map.h"
#include "cuda/images.h"
#include "cuda/registry.h"
#include "cuda/registry_textures.h"
#include "observed.h"

namespace {

struct Seen {
  kerncap::Launch launch;
  std::string refused, routes;
  int runs = 0;
  int forks = 0;
} seen;

std::mutex seen_mutex;

bool capture_all = std::getenv("ROUTES_CAPTURE_ALL") != nullptr;

}  // namespace

namespace kerncap::capture {
std::atomic<uint64_t> pass_below{0}, counts_due_ns{~0ULL};
std::atomic<uint32_t> graph_choices{0};
__thread uint32_t thread_choices = 0;
__thread uint32_t thread_configs = 0;

bool armed() noexcept {
  return std::getenv("KERNCAP_SESSION") != nullptr;
}

bool wants(const Launch& launch) noexcept {
  if (!capture_all) launch.kernel->interest.store(Interest::ignored);
  return capture_all;
}

int run(const Launch& launch, Call call, void* context) noexcept {
  std::unique_lock<std::mutex> lock(seen_mutex);
  seen.launch = launch;
  ++seen.runs;
  seen.routes += launch.route + "\n";
  lock.unlock();
  return call(context);
}

bool lists_only() noexcept {
  return false;
}
GraphTurn graph_launched(int64_t*) noexcept {
  return {};
}
GraphWish graph_wish(const GraphTurn&) noexcept {
  return GraphWish::kernels;
}
void graph_ended(const GraphTurn&) noexcept {}
bool asks_for_nodes() noexcept {
  return false;
}
void became_node(const Kernel&, const void*) noexcept {}
bool may_be_armed() noexcept {
  return false;
}
void profiler_comes() noexcept {}
void memory_comes() noexcept {}
void refuse(const Kernel*, const char* reason) noexcept {
  seen.refused = reason;
}
void reset_after_fork() noexcept {
  ++seen.forks;
}
void saw_error(int) noexcept {}
bool read_due_clock() noexcept {
  return false;
}
bool passes_over(Kernel&) noexcept {
  return false;
}
bool may_want_in_graph(Kernel&) noexcept {
  return capture_all;
}
bool close_for_stops(const std::vector<Launch>&, Stopped*, std::string*) noexcept {
  return false;
}
}  // namespace kerncap::capture

extern "C" {
#define EXPORT __attribute__((visibility("default")))
EXPORT int routes_passes(void) {
  return static_cast<int>(kerncap::this_thread.depth);
}
EXPORT void routes_capture_all(int on) {
  capture_all = on != 0;
}
EXPORT int routes_forks(void) {
  return seen.forks;
}
EXPORT int routes_is_capturing(void) {
  return kerncap::cuda::is_capturing() ? 1 : 0;
}
EXPORT size_t routes_streams(void* context) {
  return kerncap::cuda::streams_of(static_cast<CUcontext>(context)).size();
}
// Textures of a context, and 100 for each surface.
EXPORT size_t routes_textures(void* context) {
  size_t count = 0;
  for (const kerncap::cuda::LiveTexture& object : kerncap::cuda::textures_of(static_cast<CUcontext>(context)))
    count += object.is_surface ? 100 : 1;
  return count;
}
EXPORT unsigned routes_levels(void* array) {
  return kerncap::cuda::levels_of(static_cast<CUmipmappedArray>(array));
}

EXPORT int routes_measure(const void* image, const void** start, size_t* size) {
  const uint8_t* bytes = nullptr;
  int kind = static_cast<int>(kerncap::cuda::measure(image, &bytes, size));
  *start = bytes;
  return kind;
}

// Offsets and sizes, two for each parameter; -1 if the image has no list for this kernel.
EXPORT int routes_layout(const void* image, size_t size, const char* kernel, unsigned* values) {
  kerncap::Image bare;
  bare.kind = kerncap::Image::Kind::elf;
  bare.data = static_cast<const uint8_t*>(image);
  bare.size = size;
  std::vector<kerncap::Parameter> layout;
  if (!kerncap::cuda::layout_in_cubin(bare, kernel, &layout)) return -1;
  for (size_t i = 0; i < layout.size(); ++i) {
    values[2 * i] = layout[i].offset;
    values[2 * i + 1] = layout[i].size;
  }
  return static_cast<int>(layout.size());
}

EXPORT int routes_region(unsigned long long address, ObservedRegion* region) {
  kerncap::Allocation found;
  if (!kerncap::MemoryMap::instance().find(address, &found)) return 0;
  *region = {found.base, found.size, static_cast<int>(found.kind), found.device, found.how};
  return 1;
}

EXPORT void routes_launch(ObservedLaunch* out) {
  static std::string source;
  const kerncap::Launch& launch = seen.launch;
  *out = {};
  out->runs = seen.runs;
  out->routes = seen.routes.c_str();
  out->refused = seen.refused.c_str();
  if (launch.kernel == nullptr) return;
  out->name = launch.kernel->name.c_str();
  out->demangled = launch.kernel->demangled.c_str();
  out->launches = launch.kernel->launches.load();
  for (int i = 0; i < 3; ++i) {
    out->grid[i] = i == 0 ? launch.grid.x : i == 1 ? launch.grid.y : launch.grid.z;
    out->block[i] = i == 0 ? launch.block.x : i == 1 ? launch.block.y : launch.block.z;
    out->cluster[i] = i == 0 ? launch.cluster.x : i == 1 ? launch.cluster.y : launch.cluster.z;
  }
  out->shared_bytes = launch.shared_bytes;
  out->cooperative = launch.cooperative ? 1 : 0;
  out->attributes = launch.attributes.size();
  out->stream = launch.stream;
  out->context = launch.context;
  out->device = launch.device;
  out->parameters = launch.parameters.data();
  out->parameter_bytes = launch.parameters.size();
  const kerncap::Module* module = launch.kernel->module;
  if (module == nullptr || module->image == nullptr) return;
  out->image_kind = static_cast<int>(module->image->kind);
  out->image = module->image->data;
  out->image_bytes = module->image->size;
  out->mapped_from = module->image->mapped_from.c_str();
  out->origin = module->image->origin.c_str();
  kerncap::RuntimeProgram program;
  source = kerncap::cuda::program_of(*module->image, &program) ? kerncap::json_of(program) : "";
  out->nvrtc = source.c_str();
}
}
