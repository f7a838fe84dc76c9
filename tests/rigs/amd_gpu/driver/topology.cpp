#include "topology.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/kfd_sysfs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "driver.h"

namespace amd_gpu {
namespace {

// Which bits of an address a watch point compares, and whether each wave always gets its workgroup.
// Source: kfd_topology_set_capabilities of amdkfd's kfd_topology.c.
constexpr unsigned watches(unsigned lowest, unsigned highest) {
  return lowest << HSA_DBG_WATCH_ADDR_MASK_LO_BIT_SHIFT | highest << HSA_DBG_WATCH_ADDR_MASK_HI_BIT_SHIFT;
}
constexpr unsigned told = HSA_DBG_DISPATCH_INFO_ALWAYS_VALID;

constexpr Chip gfx90a = {90010, 0x740f, 141, 416, 8, 14, 78, watches(6, 29), "AMD Instinct MI210 (emulated)"};
constexpr Chip gfx942 = {
    90402, 0x74a1, 141, 1216, 32, 10, 150, watches(7, 30) | told, "AMD Instinct MI300X (emulated)"};
constexpr Chip gfx950 = {
    90500, 0x75a3, 141, 1024, 32, 8, 30, watches(6, 29) | told, "AMD Instinct MI355X (emulated)"};

constexpr uint64_t host_memory_bytes = 24ULL << 30;
constexpr unsigned heap_system = 0, heap_public = 1, heap_private = 2;  // of a memory bank
constexpr unsigned link_pcie = 2;

using Files = std::map<std::string, std::string>;  // path in the folder -> contents
using Properties = std::initializer_list<std::pair<const char*, uint64_t>>;

std::string lines(Properties properties) {
  std::string text;
  for (const auto& [name, value] : properties) text += std::string(name) + " " + std::to_string(value) + "\n";
  return text;
}

std::string bank(unsigned heap, uint64_t bytes, unsigned width) {
  return lines(
      {{"heap_type", heap}, {"size_in_bytes", bytes}, {"flags", 0}, {"width", width}, {"mem_clk_max", 1600}});
}

std::string link(unsigned from, unsigned to) {
  return lines({{"type", link_pcie},
                {"version_major", 0},
                {"version_minor", 0},
                {"node_from", from},
                {"node_to", to},
                {"weight", 20},
                {"min_latency", 0},
                {"max_latency", 0},
                {"min_bandwidth", 312},
                {"max_bandwidth", 16000},
                {"recommended_transfer_size", 0},
                {"flags", 1}});
}

std::string cache(unsigned level, unsigned kilobytes, unsigned line_bytes) {
  return lines({{"processor_id_low", 0x80001000},
                {"level", level},
                {"size", kilobytes},
                {"cache_line_size", line_bytes},
                {"cache_lines_per_tag", 1},
                {"association", 0},
                {"latency", 0},
                {"type", 9},
                {"sibling_map", 1}});
}

std::string cpu_properties(unsigned links) {
  return lines({{"cpu_cores_count", static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN))},
                {"simd_count", 0},
                {"mem_banks_count", 1},
                {"caches_count", 0},
                {"io_links_count", links},
                {"p2p_links_count", 0},
                {"cpu_core_id_base", 0},
                {"simd_id_base", 0},
                {"max_waves_per_simd", 0},
                {"lds_size_in_kb", 0},
                {"gds_size_in_kb", 0},
                {"num_gws", 0},
                {"wave_front_size", 0},
                {"array_count", 0},
                {"simd_arrays_per_engine", 0},
                {"cu_per_simd_array", 0},
                {"simd_per_cu", 0},
                {"max_slots_scratch_cu", 0},
                {"gfx_target_version", 0},
                {"vendor_id", 0},
                {"device_id", 0},
                {"location_id", 0},
                {"domain", 0},
                {"drm_render_minor", 0},
                {"hive_id", 0},
                {"num_sdma_engines", 0},
                {"num_sdma_xgmi_engines", 0},
                {"num_sdma_queues_per_engine", 0},
                {"num_cp_queues", 0},
                {"max_engine_clk_ccompute", 2000}});
}

std::string gpu_properties(const Chip& chip, unsigned lds_bytes, unsigned ordinal, size_t peers) {
  return lines({{"cpu_cores_count", 0},
                {"simd_count", chip.simds},
                {"mem_banks_count", 1},
                {"caches_count", 2},
                {"io_links_count", 1},
                {"p2p_links_count", peers},
                {"cpu_core_id_base", 0},
                {"simd_id_base", 0x80001000},
                {"max_waves_per_simd", waves_per_simd},
                {"lds_size_in_kb", lds_bytes >> 10},
                {"gds_size_in_kb", 0},
                {"num_gws", 64},
                {"wave_front_size", 64},
                {"array_count", chip.arrays},
                {"simd_arrays_per_engine", 1},
                {"cu_per_simd_array", chip.cus_per_array},
                {"simd_per_cu", 4},
                {"max_slots_scratch_cu", 32},
                {"gfx_target_version", chip.gfx_version},
                {"vendor_id", amd_vendor},
                {"device_id", chip.device_id},
                {"location_id", location_of(ordinal)},
                {"domain", 0},
                {"drm_render_minor", 128 + ordinal},
                {"hive_id", 0},
                {"num_sdma_engines", 2},
                {"num_sdma_xgmi_engines", 0},
                {"num_sdma_queues_per_engine", 8},
                {"num_cp_queues", 24},
                {"max_engine_clk_fcompute", 1700},
                {"local_mem_size", 0},
                {"fw_version", chip.firmware},
                {"capability", capability()},
                {"debug_prop", chip.debug_properties},
                {"sdma_fw_version", 8},
                {"unique_id", 0xa200000000000001 + ordinal},
                {"num_xcc", 1},
                {"max_engine_clk_ccompute", 2000}});
}

// A link from the CPU to a GPU is what tells ROCr that the host may touch all of the GPU's memory; so is the
// kind of its memory bank. Only then does amdkfd link GPUs with each other.
void add_nodes(Files& files, const Driver& state) {
  const std::string nodes = "kfd/topology/nodes/";
  const bool large_bar = state.config.large_bar;
  files[nodes + "0/gpu_id"] = "0\n";
  files[nodes + "0/name"] = "\n";
  files[nodes + "0/properties"] = cpu_properties(large_bar ? state.config.count : 0);
  files[nodes + "0/mem_banks/0/properties"] = bank(heap_system, host_memory_bytes, 64);
  for (const auto& device : state.devices) {
    const unsigned number = device->ordinal + 1;
    const std::string node = nodes + std::to_string(number) + "/";
    const std::string place = std::to_string(device->ordinal);
    files[node + "gpu_id"] = std::to_string(device->gpu_id) + "\n";
    files[node + "name"] = std::string(chip_of(state).name) + "\n";
    files[node + "properties"] = gpu_properties(chip_of(state), lds_bytes_of(state.config.target),
                                                device->ordinal, large_bar ? state.devices.size() - 1 : 0);
    files[node + "mem_banks/0/properties"] =
        bank(large_bar ? heap_public : heap_private, state.config.memory_bytes, 4096);
    files[node + "caches/0/properties"] = cache(1, 16, 64);
    files[node + "caches/1/properties"] = cache(2, 8192, 128);
    files[node + "io_links/0/properties"] = link(number, 0);
    if (!large_bar) continue;
    files[nodes + "0/io_links/" + place + "/properties"] = link(0, number);
    unsigned peers = 0;
    for (const auto& other : state.devices)
      if (other != device)
        files[node + "p2p_links/" + std::to_string(peers++) + "/properties"] =
            link(number, other->ordinal + 1);
  }
}

Files contents(const Driver& state) {
  Files files;
  files["kfd/topology/generation_id"] = "2\n";
  files["kfd/topology/system_properties"] = "platform_oem 0\nplatform_id 0\nplatform_rev 2\n";
  files["amdgpu/initstate"] = "live\n";
  files["amdgpu/version"] = "6.3.6\n";
  add_nodes(files, state);
  return files;
}

std::string key_of(const Files& files) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](const std::string& text) {
    for (const char c : text + '\0') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  for (const auto& [path, text] : files) {
    add(path);
    add(text);
  }
  char name[17];
  std::snprintf(name, sizeof name, "%016lx", hash);
  return name;
}

// Beside this library, where it may be written; else where temporary files are.
std::string parent_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&write_topology), &info) != 0 && info.dli_fname != nullptr) {
    const std::string library = info.dli_fname;
    const size_t slash = library.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : library.substr(0, slash);
    char* const whole = realpath(folder.c_str(), nullptr);
    const std::string found = whole == nullptr ? "" : whole;
    std::free(whole);
    if (!found.empty() && access(found.c_str(), W_OK) == 0) return found + "/topology";
  }
  const char* const temporary = std::getenv("TMPDIR");
  return std::string(temporary == nullptr ? "/tmp" : temporary) + "/amd-gpu-topology-" +
         std::to_string(getuid());
}

// Not through open(): that name is ours (interpose.cpp).
void write_file(const std::string& path, const std::string& text) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0755);
  }
  const int file = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644));
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    refuse("can't write the topology: " + path);
  }
  close(file);
}

}  // namespace

uint64_t capability() {
  return HSA_CAP_WATCH_POINTS_SUPPORTED | 2U << HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT |
         HSA_CAP_DOORBELL_TYPE_2_0 << HSA_CAP_DOORBELL_TYPE_TOTALBITS_SHIFT | HSA_CAP_SRAM_EDCSUPPORTED |
         HSA_CAP_SVMAPI_SUPPORTED | HSA_CAP_TRAP_DEBUG_SUPPORT | HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED |
         HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED |
         HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED |
         HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED;
}

const Chip& chip_of(const Driver& state) {
  switch (state.config.target) {
    case Target::gfx90a:
      return gfx90a;
    case Target::gfx942:
      return gfx942;
    default:
      return gfx950;
  }
}

std::string write_topology(const Driver& state) {
  const Files files = contents(state);
  const std::string folder = parent_folder() + "/" + key_of(files);
  struct stat status{};
  if (stat(folder.c_str(), &status) == 0) return folder;
  const std::string fresh = folder + "." + std::to_string(getpid());
  for (const auto& [path, text] : files) write_file(fresh + "/" + path, text);
  // Another process was faster: its folder has the same contents, and ours may stay where it is.
  return rename(fresh.c_str(), folder.c_str()) == 0 || stat(folder.c_str(), &status) == 0 ? folder : fresh;
}

}  // namespace amd_gpu
