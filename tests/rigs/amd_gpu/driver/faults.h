// How a fault of a kernel, or a packet that makes no sense, reaches the runtime.
#ifndef KERNCAP_AMD_GPU_FAULTS_H
#define KERNCAP_AMD_GPU_FAULTS_H

#include <hsa/amd_hsa_queue.h>

#include "driver.h"

namespace amd_gpu {

enum class PacketError { unknown_type, zero_size, group_memory, workgroup_size, code_object, vendor };

// No page there: a memory exception event with the address of the page; no queue of the GPU runs any more.
void memory_fault(Device& device, uint64_t va, bool write);

// Any other end of a kernel, or a bad packet: the queue halts and its error reaches the queue's callback. For
// FaultKind::memory the same as memory_fault.
void queue_fault(Queue& queue, amd_queue_t& aql, const Fault& fault);
void packet_error(Queue& queue, amd_queue_t& aql, PacketError error);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_FAULTS_H
