#include "faults.h"

#include "signals.h"

namespace amd_gpu {
namespace {

// An error is told twice: by the exception code of amdkfd (kfd_dbg_trap_exception_code), which is what a
// runtime that enabled exceptions reads, and by the bits that the firmware and the trap handler leave in the
// queue's inactive signal, which is all that an older one knows.
struct Code {
  uint64_t exception;
  int64_t legacy;
};

Code code_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::aperture:
      return {EC_QUEUE_WAVE_APERTURE_VIOLATION, 0x20000000};
    case FaultKind::trap:
      return {EC_QUEUE_WAVE_ABORT, 0x80000000};
    case FaultKind::code_object:
      return {EC_QUEUE_PACKET_DISPATCH_CODE_INVALID, 8};
    default:
      return {EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION, 0x40000000};
  }
}

Code code_of(PacketError error) {
  switch (error) {
    case PacketError::zero_size:
      return {EC_QUEUE_PACKET_DISPATCH_DIM_INVALID, 2};
    case PacketError::group_memory:
      return {EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID, 4};
    case PacketError::code_object:
      return {EC_QUEUE_PACKET_DISPATCH_CODE_INVALID, 8};
    case PacketError::workgroup_size:
      return {EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, 64};
    case PacketError::vendor:
      return {EC_QUEUE_PACKET_VENDOR_UNSUPPORTED, 256};
    default:
      return {EC_QUEUE_PACKET_UNSUPPORTED, 32};
  }
}

void deliver(Queue& queue, amd_queue_t& aql, Code code) {
  queue.halted = true;
  queue.exceptions |= KFD_EC_MASK(code.exception);
  const auto* const area = reinterpret_cast<const kfd_context_save_area_header*>(queue.save_area);
  if (area != nullptr && area->err_payload_addr != 0) {
    auto* const payload = reinterpret_cast<uint64_t*>(area->err_payload_addr);
    __atomic_fetch_or(payload, KFD_EC_MASK(code.exception), __ATOMIC_ACQ_REL);
    driver().events.set(area->err_event_id);
  } else {
    store(*queue.device, aql.queue_inactive_signal, code.legacy);
  }
}

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::aperture:
      return "access outside of LDS or scratch";
    case FaultKind::illegal:
      return "illegal instruction";
    case FaultKind::unsupported:
      return "not emulated";
    case FaultKind::trap:
      return "trap";
    case FaultKind::code_object:
      return "no code object";
    default:
      return "fault";
  }
}

}  // namespace

void memory_fault(Device& device, uint64_t va, bool write) {
  log(0, "gpu %u: memory fault, %s %#lx", device.ordinal, write ? "write to" : "read of", va);
  device.stopped = true;
  device.exceptions |= KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION);
  kfd_hsa_memory_exception_data record{};
  Mapping mapping;
  const bool is_mapped = device.pages.find(va, mapping);
  record.va = va & ~(PhysicalMemory::page - 1);
  record.gpu_id = device.gpu_id;
  record.failure.NotPresent = is_mapped ? 0 : 1;
  record.failure.ReadOnly = is_mapped && write ? 1 : 0;
  driver().events.raise_memory_exception(record);
}

void queue_fault(Queue& queue, amd_queue_t& aql, const Fault& fault) {
  if (fault.kind == FaultKind::cancelled) return;
  if (fault.kind == FaultKind::memory) {
    log(0, "queue %u: %s, pc %#lx", queue.id, fault.text.c_str(), fault.pc);
    queue.exceptions |= KFD_EC_MASK(EC_QUEUE_WAVE_MEMORY_VIOLATION);
    memory_fault(*queue.device, fault.address, fault.write);
    return;
  }
  log(0, "queue %u: %s: %s, pc %#lx, address %#lx", queue.id, name_of(fault.kind), fault.text.c_str(),
      fault.pc, fault.address);
  deliver(queue, aql, code_of(fault.kind));
}

void packet_error(Queue& queue, amd_queue_t& aql, PacketError error) {
  const Code code = code_of(error);
  log(0, "queue %u: the packet is refused, exception code %lu", queue.id, code.exception);
  deliver(queue, aql, code);
}

}  // namespace amd_gpu
