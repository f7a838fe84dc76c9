// A profiler as rocprofiler-register finds it, in the place of librocprofiler-sdk.so: it makes the program's
// queues and counts the kernels in them, as rocprofiler-sdk does for a tool that traces kernels.
// PROFILER_QUEUES=plain: its queues are plain ones, which no one else can intercept. On stderr at the end:
// "profiler: 12 kernels".
#include <hsa/hsa_api_trace.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

CoreApiTable core;
AmdExtTable amd;
std::atomic<unsigned> kernels{0};

void count(const void* packets, uint64_t number, uint64_t, void*,
           hsa_amd_queue_intercept_packet_writer writer) {
  auto* each = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
  for (uint64_t i = 0; i < number; ++i) kernels += (each[i].header & 0xff) == HSA_PACKET_TYPE_KERNEL_DISPATCH;
  writer(packets, number);
}

hsa_status_t create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                    void (*on_error)(hsa_status_t, hsa_queue_t*, void*), void* data, uint32_t private_size,
                    uint32_t group_size, hsa_queue_t** queue) {
  if (std::getenv("PROFILER_QUEUES") != nullptr)
    return core.hsa_queue_create_fn(agent, size, type, on_error, data, private_size, group_size, queue);
  hsa_status_t status = amd.hsa_amd_queue_intercept_create_fn(agent, size, type, on_error, data, private_size,
                                                              group_size, queue);
  if (status == HSA_STATUS_SUCCESS) amd.hsa_amd_queue_intercept_register_fn(*queue, count, nullptr);
  return status;
}

__attribute__((destructor)) void say() {
  std::fprintf(stderr, "profiler: %u kernels\n", kernels.load());
}

}  // namespace

extern "C" int rocprofiler_set_api_table(const char* library, uint64_t, uint64_t, void** tables, uint64_t) {
  if (library[0] != 'h' || library[1] != 's') return 0;
  auto* all = static_cast<HsaApiTable*>(tables[0]);
  core = *all->core_;
  amd = *all->amd_ext_;
  all->core_->hsa_queue_create_fn = create;
  return 0;
}
