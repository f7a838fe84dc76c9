// Queues: an intercepted one in place of each that the target makes.
#include "common/gate.h"
#include "hip/queues.h"
#include "hip/tables.h"

namespace kerncap::hip {

Status wrap::hsa_queue_create(Agent agent, uint32_t size, uint32_t type, QueueError on_error, void* data,
                              uint32_t private_size, uint32_t group_size, HsaQueue** queue) noexcept {
  return create_queue({agent, size, type, on_error, data, private_size, group_size}, real().hsa_queue_create,
                      queue);
}

// Another tool's, which registers its own callback beside ours.
Status wrap::hsa_amd_queue_intercept_create(Agent agent, uint32_t size, uint32_t type, QueueError on_error,
                                            void* data, uint32_t private_size, uint32_t group_size,
                                            HsaQueue** queue) noexcept {
  return create_queue({agent, size, type, on_error, data, private_size, group_size},
                      real().hsa_amd_queue_intercept_create, queue);
}

Status wrap::hsa_queue_destroy(HsaQueue* queue) noexcept {
  gate::Pass pass;
  return forget_queue(queue) ? real().hsa_queue_destroy(queue) : constant::success;
}

}  // namespace kerncap::hip
