#include "common/glibc_floor.h"

#include "hip/device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/gate.h"
#include "common/kept_images.h"
#include "common/readable.h"
#include "common/text.h"
#include "hip/faults.h"
#include "hip/kernel_objects.h"
#include "hip/packets.h"
#include "hip/tables.h"

namespace kerncap {

Device* device() noexcept {
  return &hip::hip_device();
}
const char* shim_name() noexcept {
  return word::shim::hip;
}

namespace hip {
namespace {

struct ThreadState {
  unsigned entered = 0;
  alignas(gate::Own) unsigned char own[sizeof(gate::Own)];
};
thread_local ThreadState here;

// "ROCr 1.15.0": the build's version if it is known (some wrap it in quotes), else the interface's.
std::string runtime_text(const Hsa& real) {
  uint16_t major = 0, minor = 0;
  const char* build = nullptr;
  real.hsa_system_get_info(constant::system_version_major, &major);
  real.hsa_system_get_info(constant::system_version_minor, &minor);
  std::string text;
  if (real.hsa_system_get_info(constant::system_build_version, &build) == constant::success &&
      build != nullptr)
    text = build;
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  if (!text.empty()) return "ROCr " + text;
  return "ROCr with HSA " + std::to_string(major) + "." + std::to_string(minor);
}

bool is_mapping(const Allocation& allocation) {
  return std::strcmp(allocation.how, "hsa_amd_vmem_map") == 0;
}

bool is_shared_memory(const Allocation& allocation) {
  return std::strcmp(allocation.how, "hsa_amd_svm_attributes_set") == 0;
}

bool may_access(const Hsa& real, const Allocation& allocation, Agent agent) {
  int permission = 0;
  if (real.hsa_amd_vmem_get_access == nullptr) return true;
  auto* address = reinterpret_cast<void*>(static_cast<uintptr_t>(allocation.base));
  return real.hsa_amd_vmem_get_access(address, &permission, agent) == constant::success && permission != 0;
}

bool is_known(const Hsa& real, const Allocation& allocation) {
  PointerInfo info{};
  info.size = sizeof info;
  auto* address = reinterpret_cast<const void*>(static_cast<uintptr_t>(allocation.base));
  if (real.hsa_amd_pointer_info == nullptr) return true;
  if (real.hsa_amd_pointer_info(address, &info, nullptr, nullptr, nullptr) != constant::success ||
      info.type == constant::pointer_unknown)
    return false;
  auto base = reinterpret_cast<uint64_t>(info.agentBaseAddress);
  return allocation.base >= base &&
         allocation.base + allocation.size <= base + static_cast<uint64_t>(info.sizeInBytes);
}

}  // namespace

HipDevice& hip_device() noexcept {
  alignas(HipDevice) static char storage[sizeof(HipDevice)];
  static HipDevice* made = new (storage) HipDevice;  // never destroyed: threads launch until the end
  return *made;
}

bool HipDevice::enter(const Launch& launch, std::string* why) {
  if (hsa() == nullptr || gpu(launch.device) == nullptr) {
    *why = "the HSA runtime is not loaded";
    return false;
  }
  if (here.entered++ == 0) new (here.own) gate::Own;
  return true;
}

void HipDevice::leave() noexcept {
  if (here.entered == 0 || --here.entered != 0) return;
  reinterpret_cast<gate::Own*>(here.own)->~Own();
}

const Gpu* HipDevice::gpu(int device) noexcept {
  const Agents* all = agents();
  if (all == nullptr || device < 0 || static_cast<size_t>(device) >= all->gpus.size()) return nullptr;
  return &all->gpus[static_cast<size_t>(device)];
}

DeviceFacts HipDevice::describe(int ordinal) {
  DeviceFacts facts;
  facts.kind = word::device_kind::hip;
  facts.ordinal = ordinal;
  const Gpu* found = gpu(ordinal);
  if (found == nullptr) return facts;
  facts.arch = agent_text(found->agent, constant::agent_name);
  facts.name = agent_text(found->agent, constant::agent_product_name);
  if (facts.name.empty()) facts.name = facts.arch;
  facts.memory_bytes = found->memory_bytes;
  facts.driver = runtime_text(*hsa());
  std::string isa = isa_name(found->agent);
  size_t features = isa.find(':');
  if (features != std::string::npos) facts.driver += ", " + facts.arch + isa.substr(features);
  return facts;
}

std::string HipDevice::stream_text(void* stream) {
  const auto* queue = static_cast<const Queue*>(stream);
  return queue == nullptr ? "an hsa queue" : "hsa queue " + std::to_string(queue->number);
}

std::string HipDevice::program_of(const Image& image) {
  RuntimeProgram program;
  return images::program_of(image.data, image.size, &program) ? json_of(program) : std::string();
}

std::vector<Allocation> HipDevice::globals(const Launch& launch, const std::vector<std::string>& names) {
  const Module* module = launch.kernel->module;
  if (module == nullptr || module->gone.load()) return {};
  return variables_of(*module, names);
}

std::vector<Allocation> HipDevice::statics(const Launch& launch,
                                           const std::vector<StaticVariable>& variables) {
  std::vector<Allocation> found;
  uint64_t delta = 0;
  if (!load_delta_of(*launch.kernel, &delta)) return found;
  for (const StaticVariable& variable : variables) {
    Allocation allocation;
    allocation.base = delta + variable.address;
    allocation.size = variable.size;
    allocation.kind = RegionKind::global;
    allocation.device = launch.device;
    allocation.name = variable.name;
    allocation.module = launch.kernel->module;
    found.push_back(allocation);
  }
  return found;
}

bool HipDevice::is_readable(const Allocation& allocation) {
  if (allocation.kind == RegionKind::host || is_shared_memory(allocation))
    return is_readable_here(allocation.base, allocation.size);
  if (allocation.kind == RegionKind::global) {
    const auto* module = static_cast<const Module*>(allocation.module);
    return module != nullptr && !module->gone.load();
  }
  const Gpu* owner = gpu(allocation.device);
  if (owner == nullptr) return false;
  return is_mapping(allocation) ? may_access(*hsa(), allocation, owner->agent) : is_known(*hsa(), allocation);
}

// Whether this process reads the memory where it lies, though devices reach it too.
bool HipDevice::is_shared(uint64_t address) noexcept {
  Allocation found;
  return MemoryMap::instance().find(address, &found) && is_shared_memory(found);
}

void HipDevice::unseen(std::string* note) {
  if (unsigned plain = plain_queues(); plain != 0)
    *note = std::to_string(plain) +
            " queues could not be intercepted: what they had under way was not waited for";
}

bool HipDevice::good(Status status) noexcept {
  if (status != constant::success) last_status_here() = status;
  return status == constant::success;
}

int HipDevice::status() const noexcept {
  int lost = hip::sticky_error();
  return lost != 0 ? lost : last_status_here();
}

int& HipDevice::last_status_here() noexcept {
  thread_local int status = 0;
  return status;
}

std::string HipDevice::error_text(int status) {
  return status_text(status);
}

int HipDevice::sticky_error() noexcept {
  return hip::sticky_error();
}

void HipDevice::dispose() noexcept {
  const Hsa* real = hsa();
  if (real == nullptr) return;
  gate::Own own;
  for (Signal signal : slots_) real->hsa_signal_destroy(signal);
  for (const auto& entry : copies_) real->hsa_signal_destroy(entry.first);
  if (ring_ != nullptr) real->hsa_amd_memory_pool_free(ring_);
  times::dispose(*real);
  forget();
}

void HipDevice::forget() noexcept {
  // What is not given back is of a runtime that is gone.
  ring_ = nullptr;
  slots_.clear();
  busy_.clear();
  copies_.clear();
  here.entered = 0;
  times::forget();
}

}  // namespace hip
}  // namespace kerncap
