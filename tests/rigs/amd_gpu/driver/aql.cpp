// The packet processor of AQL queues. Packets run one after another, so that the barrier bit and the fences
// of a packet's header need no work of their own. Source: hsa/hsa.h, hsa/hsa_ext_amd.h, hsa/amd_hsa_queue.h.
#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cstddef>
#include <ctime>

#include "faults.h"
#include "signals.h"

namespace amd_gpu {
namespace {

constexpr uint64_t packet_bytes = 64;
constexpr uint32_t most_work_items = 1024;

enum class Step { done, waits, failed };

// A packet in its ring, and what it says of its end.
struct Packet {
  Queue& queue;
  amd_queue_t& aql;
  uint64_t queue_va;
  uint64_t va;
  void* bytes;
  hsa_signal_t completion{0};

  template <class T>
  const T& as() const {
    return *static_cast<const T*>(bytes);
  }
  Device& device() const { return *queue.device; }
};

Step fail(const Packet& packet, PacketError error) {
  packet_error(packet.queue, packet.aql, error);
  return Step::failed;
}

Step hang(const Packet& packet) {
  log(0, "queue %u: a dispatch never ends, asked for by AMD_GPU_FAIL", packet.queue.id);
  while (!packet.queue.ends_dispatch) {
    const timespec pause{0, 1000000};
    nanosleep(&pause, nullptr);
  }
  return Step::failed;
}

Step dispatch(Packet& packet) {
  const auto& kernel = packet.as<hsa_kernel_dispatch_packet_t>();
  packet.completion = kernel.completion_signal;
  const uint64_t number = driver().failures.next_dispatch();
  log(1, "queue %u: dispatch %lu: %u,%u,%u of %u,%u,%u, kernel %#lx, arguments %p, lds %u", packet.queue.id,
      number, kernel.grid_size_x, kernel.grid_size_y, kernel.grid_size_z, kernel.workgroup_size_x,
      kernel.workgroup_size_y, kernel.workgroup_size_z, kernel.kernel_object, kernel.kernarg_address,
      kernel.group_segment_size);
  const uint64_t items =
      static_cast<uint64_t>(kernel.workgroup_size_x) * kernel.workgroup_size_y * kernel.workgroup_size_z;
  const bool no_grid = kernel.grid_size_x == 0 || kernel.grid_size_y == 0 || kernel.grid_size_z == 0;
  if (items == 0 || no_grid) return fail(packet, PacketError::zero_size);
  if (items > most_work_items) return fail(packet, PacketError::workgroup_size);
  if (kernel.group_segment_size > lds_bytes_of(driver().config.target))
    return fail(packet, PacketError::group_memory);
  if (kernel.kernel_object == 0) return fail(packet, PacketError::code_object);

  bool hangs = false, unknown = false;
  Fault fault = driver().failures.dispatch(number, hangs, unknown);
  if (hangs) return hang(packet);
  if (unknown) return fail(packet, PacketError::unknown_type);
  if (fault.kind == FaultKind::none) {
    Dispatch wanted;
    wanted.target = driver().config.target;
    wanted.memory = &packet.device().pages;
    wanted.packet = packet.bytes;
    wanted.packet_va = packet.va;
    wanted.queue_va = packet.queue_va;
    wanted.cancelled = &packet.queue.ends_dispatch;
    wanted.interrupt = [](uint32_t event) { driver().events.set(event); };
    wanted.threads = driver().config.threads;
    fault = run_dispatch(wanted);
  }
  if (fault.kind == FaultKind::none) return Step::done;
  packet.queue.waves = std::move(fault.waves);
  packet.queue.packet_index = static_cast<uint32_t>((packet.va - packet.queue.ring) / packet_bytes);
  if (fault.kind == FaultKind::cancelled) packet.queue.halted = true;
  queue_fault(packet.queue, packet.aql, fault);
  return Step::failed;
}

// A signal that is no longer mapped counts as one that is not zero.
bool is_zero(const Device& device, hsa_signal_t signal) {
  int64_t value = 0;
  return load(device, signal, value) && value == 0;
}

Step barrier(Packet& packet, bool needs_all) {
  const auto& wanted = packet.as<hsa_barrier_and_packet_t>();
  packet.completion = wanted.completion_signal;
  bool any_named = false, any_zero = false, all_zero = true;
  for (const hsa_signal_t& signal : wanted.dep_signal) {
    if (signal.handle == 0) continue;
    const bool zero = is_zero(packet.device(), signal);
    any_named = true;
    any_zero = any_zero || zero;
    all_zero = all_zero && zero;
  }
  return !any_named || (needs_all ? all_zero : any_zero) ? Step::done : Step::waits;
}

bool compare(hsa_signal_condition32_t condition, int64_t value, int64_t wanted) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == wanted;
    case HSA_SIGNAL_CONDITION_NE:
      return value != wanted;
    case HSA_SIGNAL_CONDITION_LT:
      return value < wanted;
    default:
      return value >= wanted;
  }
}

// AMD's own packets: a barrier on a value, and (format 1) a piece of PM4 code, which ROCr uses to flush
// caches.
Step vendor(Packet& packet) {
  const uint8_t format = static_cast<const uint8_t*>(packet.bytes)[2];
  const auto& wanted = packet.as<hsa_amd_barrier_value_packet_t>();
  packet.completion = wanted.completion_signal;  // the last eight bytes in either
  if (format != HSA_AMD_PACKET_TYPE_BARRIER_VALUE) return Step::done;
  if (wanted.signal.handle == 0) return Step::done;
  int64_t value = 0;
  if (!load(packet.device(), wanted.signal, value)) return Step::waits;
  return compare(wanted.cond, value & wanted.mask, wanted.value) ? Step::done : Step::waits;
}

Step run(Packet& packet, int type) {
  switch (type) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
      return dispatch(packet);
    case HSA_PACKET_TYPE_BARRIER_AND:
      return barrier(packet, true);
    case HSA_PACKET_TYPE_BARRIER_OR:
      return barrier(packet, false);
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
      return vendor(packet);
    default:
      return fail(packet, PacketError::unknown_type);
  }
}

}  // namespace

bool step_aql(Queue& queue) {
  Device& device = *queue.device;
  auto* const read = device_object<uint64_t>(device, queue.read_pointer);
  auto* const written = device_object<uint64_t>(device, queue.write_pointer);
  if (read == nullptr || written == nullptr) return false;
  const uint64_t number = *read;
  const auto* const doorbell = reinterpret_cast<int64_t*>(driver().doorbells.at(queue.doorbell));
  if (static_cast<int64_t>(number) > __atomic_load_n(doorbell, __ATOMIC_ACQUIRE)) return false;
  if (number >= __atomic_load_n(written, __ATOMIC_ACQUIRE)) return false;

  const uint64_t va = queue.ring + number % (queue.ring_bytes / packet_bytes) * packet_bytes;
  auto* const bytes = device.pages.translate(va, packet_bytes);
  if (bytes == nullptr) {
    memory_fault(device, va, false);
    return false;
  }
  auto* const header = reinterpret_cast<uint16_t*>(bytes);
  const int type = __atomic_load_n(header, __ATOMIC_ACQUIRE) & 0xff;
  if (type == HSA_PACKET_TYPE_INVALID) return false;

  constexpr uint64_t write_offset = offsetof(amd_queue_t, write_dispatch_id);
  auto* const aql = reinterpret_cast<amd_queue_t*>(reinterpret_cast<uint8_t*>(written) - write_offset);
  Packet packet{queue, *aql, queue.write_pointer - write_offset, va, bytes};
  const uint64_t start = gpu_clock();
  if (run(packet, type) != Step::done) return false;
  __atomic_store_n(header, static_cast<uint16_t>(HSA_PACKET_TYPE_INVALID), __ATOMIC_RELEASE);
  __atomic_store_n(read, number + 1, __ATOMIC_RELEASE);
  log(4, "queue %u: packet %lu of type %d done, signal %#lx", queue.id, number, type,
      packet.completion.handle);
  complete(device, packet.completion, start, gpu_clock());
  return true;
}

}  // namespace amd_gpu
