// A stand-in for the HSA runtime: its tables over plain memory, and queues that behave as ROCr's intercepted
// ones do (shims/hip/queues.h names what is relied on). What a tool must not do ends the program.
#ifndef KERNCAP_TESTS_HIP_RUNTIME_H
#define KERNCAP_TESTS_HIP_RUNTIME_H

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hip/hsa_api.h"

namespace runtime {

using namespace kerncap::hip;

// Set before a queue is made.
extern bool whole_batches;      // callbacks get all packets that are there, as newer runtimes give them
extern bool refuses_intercept;  // no intercept queue can be had
extern std::atomic<bool> copies_stand_still;

// The tables as a tool gets them; major 2 of amd_ext has `functions` entries.
ApiTable* tables(uint32_t amd_major = 2, int functions = 72);
// What a program calls: the function of this name as the tables have it now.
Function function(const std::string& name);
template <typename F>
F call(const char* name) {
  return reinterpret_cast<F>(function(name));
}

// A kernel is a function of the program's; `object` is what its packets name.
using Body = std::function<void(const DispatchPacket&)>;
struct KernelCode {
  std::string name;  // with ".kd"
  Body body;
  uint32_t parameter_bytes = 8;
};
// Loads them as one executable of one code object.
void load(const std::vector<KernelCode*>& kernels);

// --- what a program does ------------------------------------------------------------------------------

HsaQueue* make_queue(uint32_t size = 64, uint32_t type = constant::queue_type_multi);
void destroy_queue(HsaQueue* queue);
float* allocate(size_t count);
Signal make_signal(SignalValue value);
SignalValue value_of(Signal signal);
Packet dispatch(const KernelCode& kernel, void* parameters, Signal done = {});
Packet vendor_packet(uint64_t tag);
// Writes them all, then rings once.
void submit(HsaQueue* queue, const std::vector<Packet>& packets);
void wait(Signal signal);

// The callback that a tool registered for a queue, with its argument.
std::pair<PacketHandler, void*> handler_of(HsaQueue* queue);
// The hardware's view: every packet that it was given, in order.
std::vector<Packet> seen(HsaQueue* queue);
void wait_until_empty(HsaQueue* queue);

}  // namespace runtime

#endif  // KERNCAP_TESTS_HIP_RUNTIME_H
