// What this shim uses of AMD's HSA runtime: types, constants and the layout of its tables of functions.
//
// Declared here, so that the shim builds where no ROCm is installed; tests/native/hip compares all of it
// with the headers that are. Names are the runtime's without their prefix.
#ifndef KERNCAP_HIP_HSA_API_H
#define KERNCAP_HIP_HSA_API_H

#include <cstddef>
#include <cstdint>

namespace kerncap::hip {

using Status = int32_t;  // hsa_status_t
using SignalValue = int64_t;

struct Agent {
  uint64_t handle;
};
struct Signal {
  uint64_t handle;
};
struct Executable {
  uint64_t handle;
};
struct Symbol {  // hsa_executable_symbol_t
  uint64_t handle;
};
struct Reader {  // hsa_code_object_reader_t
  uint64_t handle;
};
struct LoadedObject {  // hsa_loaded_code_object_t
  uint64_t handle;
};
struct Region {  // hsa_region_t
  uint64_t handle;
};
struct Pool {  // hsa_amd_memory_pool_t
  uint64_t handle;
};
struct VmemHandle {  // hsa_amd_vmem_alloc_handle_t
  uint64_t handle;
};
struct IpcMemory {  // hsa_amd_ipc_memory_t
  uint32_t handle[8];
};

struct HsaQueue {  // hsa_queue_t
  uint32_t type;
  uint32_t features;
  void* base_address;
  Signal doorbell_signal;
  uint32_t size;
  uint32_t reserved1;
  uint64_t id;
};

constexpr size_t packet_bytes = 64;

struct DispatchPacket {  // hsa_kernel_dispatch_packet_t
  uint16_t header;
  uint16_t setup;
  uint16_t workgroup_size_x, workgroup_size_y, workgroup_size_z;
  uint16_t reserved0;
  uint32_t grid_size_x, grid_size_y, grid_size_z;
  uint32_t private_segment_size, group_segment_size;
  uint64_t kernel_object;
  void* kernarg_address;
  uint64_t reserved2;
  Signal completion_signal;
};

struct BarrierPacket {  // hsa_barrier_and_packet_t
  uint16_t header;
  uint16_t reserved0;
  uint32_t reserved1;
  Signal dep_signal[5];
  uint64_t reserved2;
  Signal completion_signal;
};

struct BarrierValuePacket {  // hsa_amd_barrier_value_packet_t; its completion signal is where the others' is
  uint16_t header;
  uint8_t format;
  uint8_t reserved;
  uint32_t reserved0;
  Signal signal;
  SignalValue value, mask;
  uint32_t condition;
  uint32_t reserved1;
  uint64_t reserved2, reserved3;
  Signal completion_signal;
};

// A packet of whatever type.
union Packet {
  uint16_t header;
  DispatchPacket dispatch;
  BarrierPacket barrier;
  BarrierValuePacket barrier_value;
};
static_assert(sizeof(Packet) == packet_bytes, "packets have 64 bytes");

struct PointerInfo {  // hsa_amd_pointer_info_t; the runtime fills what `size` says
  uint32_t size;
  int32_t type;
  void* agentBaseAddress;
  void* hostBaseAddress;
  size_t sizeInBytes;
  void* userData;
  Agent agentOwner;
  uint32_t global_flags;
};

struct SystemEvent {  // hsa_amd_event_t, of a memory fault
  int32_t event_type;
  struct {
    Agent agent;
    uint64_t virtual_address;
    uint32_t fault_reason_mask;
  } memory_fault;
};

struct DispatchTime {  // hsa_amd_profiling_dispatch_time_t
  uint64_t start, end;
};

struct SvmAttribute {  // hsa_amd_svm_attribute_pair_t
  uint64_t attribute, value;
};

using QueueError = void (*)(Status status, HsaQueue* source, void* data);
using PacketWriter = void (*)(const void* packets, uint64_t count);
using PacketHandler = void (*)(const void* packets, uint64_t count, uint64_t index, void* data,
                               PacketWriter writer);
using SystemEventHandler = Status (*)(const SystemEvent* event, void* data);

namespace constant {
constexpr Status success = 0;
constexpr Status info_break = 1;
constexpr Status error = 0x1000;
constexpr Status error_exception = 0x1016;
constexpr Status error_memory_aperture_violation = 41;
constexpr Status error_illegal_instruction = 42;
constexpr Status error_memory_fault = 43;

constexpr int system_version_major = 0;
constexpr int system_version_minor = 1;
constexpr int system_timestamp = 2;
constexpr int system_timestamp_frequency = 3;
constexpr int system_build_version = 0x200;

constexpr int agent_name = 0;
constexpr int agent_device = 17;
constexpr int agent_product_name = 0xA009;
constexpr int agent_memory_available = 0xA015;
constexpr int device_type_cpu = 0;
constexpr int device_type_gpu = 1;
constexpr int isa_name_length = 0;
constexpr int isa_name = 1;

constexpr int pool_segment = 0;
constexpr int pool_global_flags = 1;
constexpr int pool_size = 2;
constexpr int pool_alloc_allowed = 5;
constexpr int segment_global = 0;
constexpr uint32_t pool_flag_kernarg = 1;
constexpr uint32_t pool_flag_fine_grained = 2;
constexpr uint32_t pool_flag_coarse_grained = 4;

constexpr int pointer_unknown = 0;
constexpr int pointer_hsa = 1;
constexpr int pointer_locked = 2;
constexpr int pointer_ipc = 4;
constexpr int event_memory_fault = 0;

constexpr uint32_t queue_type_multi = 0;
constexpr uint32_t queue_type_single = 1;
constexpr uint32_t queue_type_cooperative = 2;

constexpr unsigned packet_vendor = 0;
constexpr unsigned packet_invalid = 1;
constexpr unsigned packet_dispatch = 2;
constexpr unsigned packet_barrier_and = 3;
constexpr unsigned header_barrier = 8;
constexpr unsigned header_acquire = 9;
constexpr unsigned header_release = 11;
constexpr unsigned fence_system = 2;
constexpr uint8_t format_barrier_value = 2;
constexpr uint32_t condition_equal = 0;
constexpr uint32_t condition_less = 2;

constexpr int symbol_type = 0;
constexpr int symbol_name_length = 1;
constexpr int symbol_name = 2;
constexpr int symbol_variable_size = 9;
constexpr int symbol_kernarg_size = 11;
constexpr int symbol_group_size = 13;
constexpr int symbol_private_size = 14;
constexpr int symbol_variable_address = 21;
constexpr int symbol_kernel_object = 22;
constexpr int symbol_is_variable = 0;
constexpr int symbol_is_kernel = 1;

constexpr uint64_t svm_agent_accessible = 0x200;
constexpr uint64_t svm_agent_accessible_in_place = 0x201;
constexpr uint64_t svm_agent_no_access = 0x202;
}  // namespace constant

// --- the tables -----------------------------------------------------------------------------------

// Of each table; `minor` is its size in bytes: it grows at its end within a major version.
struct TableVersion {
  uint32_t major, minor, step, reserved;
};

using Function = void (*)();

struct Table {
  TableVersion version;
  Function functions[1];  // as many as `version.minor` has room for
};

struct ApiTable {  // HsaApiTable; what follows is of no use here
  TableVersion version;
  Table* core;
  Table* amd_ext;
};

constexpr size_t slot_offset(int slot) {
  return sizeof(TableVersion) + static_cast<size_t>(slot) * sizeof(Function);
}

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_HSA_API_H
