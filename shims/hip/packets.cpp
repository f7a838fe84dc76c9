#include "hip/packets.h"

#include <cstring>
#include <new>
#include <vector>

#include "common/capture.h"
#include "common/clock.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "common/memory_map.h"
#include "common/process_capture.h"
#include "common/readable.h"
#include "hip/faults.h"
#include "hip/graphs.h"
#include "hip/kernel_objects.h"
#include "hip/queue_order.h"

namespace kerncap::hip {
namespace {

thread_local Batch* batch_here = nullptr;

unsigned type_of(const Packet& packet) noexcept {
  return packet.header & 0xffU;
}

uint32_t groups(uint32_t work_items, uint32_t group) noexcept {
  // Mostly there is one in two of three dimensions, and a division is the dearest thing in the callback.
  if (group <= 1) return group == 0 ? 0 : work_items;
  return (work_items + group - 1) / group;
}

Launch describe(const Queue& queue, HipKernel& kernel, const DispatchPacket& packet) {
  Launch launch;
  launch.kernel = &kernel;
  launch.block = {packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z};
  launch.grid = {groups(packet.grid_size_x, packet.workgroup_size_x),
                 groups(packet.grid_size_y, packet.workgroup_size_y),
                 groups(packet.grid_size_z, packet.workgroup_size_z)};
  launch.dispatch.work_items[0] = packet.grid_size_x;
  launch.dispatch.work_items[1] = packet.grid_size_y;
  launch.dispatch.work_items[2] = packet.grid_size_z;
  launch.dispatch.group_bytes = packet.group_segment_size;
  launch.dispatch.private_bytes = packet.private_segment_size;
  launch.dispatch.dimensions = packet.setup & 3U;
  launch.dispatch.kernel_object = packet.kernel_object;
  if (packet.group_segment_size > kernel.static_group_bytes)
    launch.shared_bytes = packet.group_segment_size - kernel.static_group_bytes;
  launch.stream = const_cast<Queue*>(&queue);
  launch.device = queue.device;
  launch.turn = graph_here();
  launch.route = "hsa queue " + std::to_string(queue.number);
  bool may_share = streams_may_share_queues(queue.device);
  if (may_share) launch.route += ", perhaps of several streams";
  // Without its barrier bit, the packet need not wait for the ones before it.
  bool waits = (packet.header >> constant::header_barrier & 1U) != 0;
  if (!waits) launch.route += ", no barrier";
  launch.dispatch.in_order = waits && !may_share;
  return launch;
}

// Null, or why the bytes of the parameters can't be had.
const char* read_parameters(const HipKernel& kernel, const DispatchPacket& packet, Launch* launch) {
  auto address = reinterpret_cast<uint64_t>(packet.kernarg_address);
  if (kernel.parameter_bytes == 0) return nullptr;
  if (address == 0 || !is_readable_here(address, kernel.parameter_bytes))
    return "its parameters are in memory that this process can't read";
  const auto* bytes = static_cast<const uint8_t*>(packet.kernarg_address);
  launch->parameters.assign(bytes, bytes + kernel.parameter_bytes);
  return nullptr;
}

// Waits until the hardware has read enough for what the capture writes beside the target's own packets.
bool wait_for_room(Batch& batch) noexcept {
  const ProcessCapture* process = kerncap::process_capture();
  uint64_t deadline = now_ns() + (process != nullptr ? process->conf().drain_timeout_ns() : 0);
  for (Backoff backoff; !batch.has_room(); backoff.pause())
    if (now_ns() >= deadline) return false;
  return true;
}

int launch_chosen(void* context) noexcept {
  auto& batch = *static_cast<Batch*>(context);
  if (gate::is_mine()) MemoryMap::instance().freeze();
  if (!capture::lists_only() || batch.is_timed()) batch.write_chosen();
  return sticky_error();
}

// One packet that somebody may want. Not inlined: the callback stays small.
__attribute__((noinline)) void watched(Batch& batch, uint64_t i, HipKernel& kernel) noexcept {
  Launch launch;
  const char* trouble = nullptr;
  try {
    launch = describe(batch.queue(), kernel, batch.packet(i).dispatch);
    trouble = read_parameters(kernel, batch.packet(i).dispatch, &launch);
  } catch (const std::bad_alloc&) {
    return;  // memory is short: not captured
  }
  if (!capture::wants(launch)) return;
  if (trouble == nullptr && !capture::lists_only() && !wait_for_room(batch))
    trouble = "its queue is full of packets that do not end, or too short to add any";
  if (trouble != nullptr) {
    capture::refuse(&kernel, trouble);
    return;
  }
  batch.choose(i);
  Batch* before = Batch::here();
  Batch::here() = &batch;
  {
    CaptureUnderWay under_way;
    capture::after_call(capture::run(launch, launch_chosen, &batch));
  }
  Batch::here() = before;
}

struct Served {
  Queue& queue;
  PacketWriter writer;
};

void serve(void* context) noexcept {
  auto& served = *static_cast<Served*>(context);
  served.queue.serve(served.writer);
}

void look_at_dispatch(Batch& batch, uint64_t i, Served* served) noexcept {
  const DispatchPacket& packet = batch.packet(i).dispatch;
  HipKernel* kernel = kernel_of(packet.kernel_object);
  if (kernel == nullptr) return;
  Dim3 block{packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z};
  Dim3 grid{groups(packet.grid_size_x, block.x), groups(packet.grid_size_y, block.y),
            groups(packet.grid_size_z, block.z)};
  capture::note(*kernel, grid, block, &batch.queue());
  if (!capture::look(*kernel)) return;
  gate::Serving serving(serve, served);
  watched(batch, i, *kernel);
}

void look_at(Queue& queue, const Packet* packets, uint64_t count, PacketWriter writer) noexcept {
  Served served{queue, writer};
  Batch batch(queue, writer, packets, count);
  for (uint64_t i = 0; i < count; ++i) {
    if (type_of(packets[i]) == constant::packet_dispatch) look_at_dispatch(batch, i, &served);
    queue_order::note(queue, packets[i]);
  }
  gate::Pass pass(serve, &served);
  batch.write_rest();
}

// A packet that woke this queue among the target's own; the hardware never sees it.
__attribute__((noinline)) void look_at_others(Queue& queue, const Packet* packets, uint64_t count,
                                              PacketWriter writer) noexcept {
  std::vector<Packet> others;
  try {
    for (uint64_t i = 0; i < count; ++i)
      if (!is_wake_packet(packets[i])) others.push_back(packets[i]);
  } catch (const std::bad_alloc&) {
    look_at(queue, packets, count, writer);  // it does nothing but pass
    return;
  }
  if (!others.empty()) look_at(queue, others.data(), others.size(), writer);
}

bool has_wake_packet(const Packet* packets, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; ++i)
    if (is_wake_packet(packets[i])) return true;
  return false;
}

}  // namespace

void on_packets(const void* given, uint64_t count, uint64_t, void* data, PacketWriter writer) {
  auto& queue = *static_cast<Queue*>(data);
  const auto* packets = static_cast<const Packet*>(given);
  queue.inside.store(true, std::memory_order_relaxed);
  queue.serve(writer);
  if (has_wake_packet(packets, count))
    look_at_others(queue, packets, count, writer);
  else
    look_at(queue, packets, count, writer);
  queue.inside.store(false, std::memory_order_release);
}

Batch*& Batch::here() noexcept {
  return batch_here;
}

bool Batch::write_with(const Packet* extra, uint64_t extra_count, uint64_t end) noexcept {
  if (done_ == end) {
    if (extra_count != 0) queue_.write(writer_, extra, extra_count);
    return true;
  }
  if (extra_count == 0) {
    queue_.write(writer_, packets_ + done_, end - done_);
    done_ = end;
    return true;
  }
  try {
    std::vector<Packet> all(packets_ + done_, packets_ + end);
    all.insert(all.end(), extra, extra + extra_count);
    queue_.write(writer_, all.data(), all.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  done_ = end;
  return true;
}

bool Batch::write_barrier(Barrier* barrier) noexcept {
  Packet packet;
  fill_barrier(&packet, barrier->signal);
  uint64_t end = is_written_ ? done_ : chosen_;
  barrier->position = queue_.written() + (end - done_) + 1;
  if (!write_with(&packet, 1, end)) return false;
  barrier->state.store(Barrier::written, std::memory_order_release);
  return true;
}

void Batch::write_chosen() noexcept {
  Packet packet = packets_[chosen_];
  if (is_written_) {
    packet.dispatch.completion_signal = Signal{0};
    queue_.write(writer_, &packet, 1);
    return;
  }
  is_written_ = true;
  if (time_after_.handle == 0) {
    write_with(nullptr, 0, chosen_ + 1);
    return;
  }
  Packet timed[3];
  fill_barrier(&timed[0], time_before_);
  timed[1] = packet;
  fill_barrier(&timed[2], time_after_);
  if (write_with(timed, 3, chosen_))
    done_ = chosen_ + 1;
  else
    write_with(nullptr, 0, chosen_ + 1);
  time_before_ = time_after_ = Signal{0};
}

void Batch::write_rest() noexcept {
  if (done_ < count_) write_with(nullptr, 0, count_);
}

}  // namespace kerncap::hip
