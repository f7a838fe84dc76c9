// Compiled only: what shims/hip/hsa_api.h, hooks.def and calls.def say, against the headers of an installed
// runtime. slots.inc and signatures.inc are written by test_hip.py.
#include "hip/hsa_api.h"
#include "hip/tables.h"
#include "hsa.h"
#include "hsa_api_trace.h"
#include "hsa_ext_amd.h"

namespace ours_in = kerncap::hip;

#define SAME_SIZE(mine, theirs) static_assert(sizeof(ours_in::mine) == sizeof(theirs), #mine)
#define SAME_PLACE(mine, theirs, field, other) \
  static_assert(offsetof(ours_in::mine, field) == offsetof(theirs, other), #mine "." #field)
#define SAME(mine, theirs) static_assert(ours_in::constant::mine == static_cast<int64_t>(theirs), #mine)

SAME_SIZE(Agent, hsa_agent_t);
SAME_SIZE(Signal, hsa_signal_t);
SAME_SIZE(Executable, hsa_executable_t);
SAME_SIZE(Symbol, hsa_executable_symbol_t);
SAME_SIZE(Reader, hsa_code_object_reader_t);
SAME_SIZE(LoadedObject, hsa_loaded_code_object_t);
SAME_SIZE(Region, hsa_region_t);
SAME_SIZE(Pool, hsa_amd_memory_pool_t);
SAME_SIZE(IpcMemory, hsa_amd_ipc_memory_t);
SAME_SIZE(SvmAttribute, hsa_amd_svm_attribute_pair_t);
SAME_SIZE(DispatchTime, hsa_amd_profiling_dispatch_time_t);
static_assert(sizeof(ours_in::Status) == sizeof(hsa_status_t), "Status");

SAME_SIZE(HsaQueue, hsa_queue_t);
SAME_PLACE(HsaQueue, hsa_queue_t, type, type);
SAME_PLACE(HsaQueue, hsa_queue_t, base_address, base_address);
SAME_PLACE(HsaQueue, hsa_queue_t, doorbell_signal, doorbell_signal);
SAME_PLACE(HsaQueue, hsa_queue_t, size, size);

SAME_SIZE(DispatchPacket, hsa_kernel_dispatch_packet_t);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, header, header);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, setup, setup);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, workgroup_size_x, workgroup_size_x);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, grid_size_x, grid_size_x);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, private_segment_size, private_segment_size);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, group_segment_size, group_segment_size);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, kernel_object, kernel_object);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, kernarg_address, kernarg_address);
SAME_PLACE(DispatchPacket, hsa_kernel_dispatch_packet_t, completion_signal, completion_signal);

SAME_SIZE(BarrierPacket, hsa_barrier_and_packet_t);
SAME_PLACE(BarrierPacket, hsa_barrier_and_packet_t, dep_signal, dep_signal);
SAME_PLACE(BarrierPacket, hsa_barrier_and_packet_t, reserved2, reserved2);
SAME_PLACE(BarrierPacket, hsa_barrier_and_packet_t, completion_signal, completion_signal);

SAME_SIZE(BarrierValuePacket, hsa_amd_barrier_value_packet_t);
SAME_PLACE(BarrierValuePacket, hsa_amd_barrier_value_packet_t, format, header.AmdFormat);
SAME_PLACE(BarrierValuePacket, hsa_amd_barrier_value_packet_t, signal, signal);
SAME_PLACE(BarrierValuePacket, hsa_amd_barrier_value_packet_t, value, value);
SAME_PLACE(BarrierValuePacket, hsa_amd_barrier_value_packet_t, mask, mask);
SAME_PLACE(BarrierValuePacket, hsa_amd_barrier_value_packet_t, condition, cond);
SAME_PLACE(BarrierValuePacket, hsa_amd_barrier_value_packet_t, completion_signal, completion_signal);

// The runtime fills what `size` says, so a newer one may have more.
static_assert(sizeof(ours_in::PointerInfo) <= sizeof(hsa_amd_pointer_info_t), "PointerInfo");
SAME_PLACE(PointerInfo, hsa_amd_pointer_info_t, type, type);
SAME_PLACE(PointerInfo, hsa_amd_pointer_info_t, agentBaseAddress, agentBaseAddress);
SAME_PLACE(PointerInfo, hsa_amd_pointer_info_t, hostBaseAddress, hostBaseAddress);
SAME_PLACE(PointerInfo, hsa_amd_pointer_info_t, sizeInBytes, sizeInBytes);
SAME_PLACE(PointerInfo, hsa_amd_pointer_info_t, agentOwner, agentOwner);
SAME_PLACE(PointerInfo, hsa_amd_pointer_info_t, global_flags, global_flags);

SAME_PLACE(SystemEvent, hsa_amd_event_t, memory_fault, memory_fault);
SAME_PLACE(SystemEvent, hsa_amd_event_t, memory_fault.virtual_address, memory_fault.virtual_address);
SAME_PLACE(SystemEvent, hsa_amd_event_t, memory_fault.fault_reason_mask, memory_fault.fault_reason_mask);

static_assert(sizeof(ours_in::TableVersion) == sizeof(ApiTableVersion), "TableVersion");
SAME_PLACE(ApiTable, HsaApiTable, core, core_);
SAME_PLACE(ApiTable, HsaApiTable, amd_ext, amd_ext_);
SAME_PLACE(TableVersion, ApiTableVersion, major, major_id);
SAME_PLACE(TableVersion, ApiTableVersion, minor, minor_id);

SAME(success, HSA_STATUS_SUCCESS);
SAME(info_break, HSA_STATUS_INFO_BREAK);
SAME(error, HSA_STATUS_ERROR);
SAME(error_exception, HSA_STATUS_ERROR_EXCEPTION);
SAME(error_memory_aperture_violation, HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION);
SAME(error_illegal_instruction, HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION);
SAME(error_memory_fault, HSA_STATUS_ERROR_MEMORY_FAULT);
SAME(system_version_major, HSA_SYSTEM_INFO_VERSION_MAJOR);
SAME(system_version_minor, HSA_SYSTEM_INFO_VERSION_MINOR);
SAME(system_timestamp, HSA_SYSTEM_INFO_TIMESTAMP);
SAME(system_timestamp_frequency, HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY);
SAME(system_build_version, HSA_AMD_SYSTEM_INFO_BUILD_VERSION);
SAME(agent_name, HSA_AGENT_INFO_NAME);
SAME(agent_device, HSA_AGENT_INFO_DEVICE);
SAME(agent_product_name, HSA_AMD_AGENT_INFO_PRODUCT_NAME);
#if HSA_AMD_EXT_API_TABLE_MAJOR_VERSION > 1  // later than ROCm 5.2
SAME(agent_memory_available, HSA_AMD_AGENT_INFO_MEMORY_AVAIL);
#endif
SAME(device_type_cpu, HSA_DEVICE_TYPE_CPU);
SAME(device_type_gpu, HSA_DEVICE_TYPE_GPU);
SAME(isa_name_length, HSA_ISA_INFO_NAME_LENGTH);
SAME(isa_name, HSA_ISA_INFO_NAME);
SAME(pool_segment, HSA_AMD_MEMORY_POOL_INFO_SEGMENT);
SAME(pool_global_flags, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS);
SAME(pool_size, HSA_AMD_MEMORY_POOL_INFO_SIZE);
SAME(pool_alloc_allowed, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED);
SAME(segment_global, HSA_AMD_SEGMENT_GLOBAL);
SAME(pool_flag_kernarg, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT);
SAME(pool_flag_fine_grained, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
SAME(pool_flag_coarse_grained, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
SAME(pointer_unknown, HSA_EXT_POINTER_TYPE_UNKNOWN);
SAME(pointer_hsa, HSA_EXT_POINTER_TYPE_HSA);
SAME(pointer_locked, HSA_EXT_POINTER_TYPE_LOCKED);
SAME(pointer_ipc, HSA_EXT_POINTER_TYPE_IPC);
SAME(event_memory_fault, HSA_AMD_GPU_MEMORY_FAULT_EVENT);
SAME(queue_type_multi, HSA_QUEUE_TYPE_MULTI);
SAME(queue_type_single, HSA_QUEUE_TYPE_SINGLE);
SAME(queue_type_cooperative, HSA_QUEUE_TYPE_COOPERATIVE);
SAME(packet_invalid, HSA_PACKET_TYPE_INVALID);
SAME(packet_vendor, HSA_PACKET_TYPE_VENDOR_SPECIFIC);
SAME(packet_dispatch, HSA_PACKET_TYPE_KERNEL_DISPATCH);
SAME(packet_barrier_and, HSA_PACKET_TYPE_BARRIER_AND);
SAME(header_barrier, HSA_PACKET_HEADER_BARRIER);
SAME(header_acquire, HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE);
SAME(header_release, HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
SAME(fence_system, HSA_FENCE_SCOPE_SYSTEM);
SAME(format_barrier_value, HSA_AMD_PACKET_TYPE_BARRIER_VALUE);
SAME(condition_equal, HSA_SIGNAL_CONDITION_EQ);
SAME(condition_less, HSA_SIGNAL_CONDITION_LT);
SAME(symbol_type, HSA_EXECUTABLE_SYMBOL_INFO_TYPE);
SAME(symbol_name_length, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH);
SAME(symbol_name, HSA_EXECUTABLE_SYMBOL_INFO_NAME);
SAME(symbol_variable_size, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE);
SAME(symbol_kernarg_size, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE);
SAME(symbol_group_size, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE);
SAME(symbol_private_size, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE);
SAME(symbol_variable_address, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS);
SAME(symbol_kernel_object, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT);
SAME(symbol_is_variable, HSA_SYMBOL_KIND_VARIABLE);
SAME(symbol_is_kernel, HSA_SYMBOL_KIND_KERNEL);
SAME(svm_agent_accessible, HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE);
SAME(svm_agent_accessible_in_place, HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE);
SAME(svm_agent_no_access, HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS);

// --- functions: each in its slot, with as many arguments, each of the same size ------------------------

template <typename A, typename B>
constexpr bool same_result() {
  if constexpr (std::is_void<A>::value || std::is_void<B>::value)
    return std::is_void<A>::value && std::is_void<B>::value;
  else
    return sizeof(A) == sizeof(B);
}

template <typename A, typename... As, typename B, typename... Bs>
constexpr bool same_arguments(A (*)(As...), B (*)(Bs...)) {
  if constexpr (sizeof...(As) != sizeof...(Bs))
    return false;
  else
    return same_result<A, B>() && ((sizeof(As) == sizeof(Bs)) && ...);
}

constexpr ours_in::Hsa ours;

#include "signatures.inc"
#include "slots.inc"
