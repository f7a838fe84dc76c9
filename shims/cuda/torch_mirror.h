// The mirror of torch's allocator: what of a segment is live, so that a capture takes a tensor's block and
// not the 20 MiB or 20 GiB that it was cut from.
//
// torch alone knows its blocks, and asking it takes the GIL, which a launching thread can't wait for:
// another thread may hold it and wait for this very launch. So the hook's own daemon thread asks torch,
// and the launching thread waits for it in C, with a deadline, before the gate closes and with no lock held.
//
//   unsigned long long kerncap_cuda_mirror_wait(void)
//       blocks until a capture wants the blocks; the request's number; 0: leave for good
//   void kerncap_cuda_mirror_answer(request, const unsigned long long *triples, long count)
//       `count` triples of base, size, live (1: a tensor may lie in it; 0: free), in any order; a negative
//       count: none can be given. Copied. An answer to another request than the current one is dropped.
//   void kerncap_cuda_mirror_offer(const unsigned long long *triples, long count)
//       blocks for the next capture on this thread, which then asks nobody: for a launcher that keeps the GIL
//
// A pointer into a live block reaches that block; one to anywhere else in an allocation that has blocks
// reaches the whole allocation. Without an answer every allocation counts whole.
#ifndef KERNCAP_CUDA_TORCH_MIRROR_H
#define KERNCAP_CUDA_TORCH_MIRROR_H

#include <cstdint>
#include <vector>

namespace kerncap::cuda::torch_mirror {

// For the capture: triples, or none within the deadline. Throws std::bad_alloc.
std::vector<uint64_t> blocks(uint64_t deadline_ns);

uint64_t wait() noexcept;
void answer(uint64_t request, const unsigned long long* triples, long count) noexcept;
void offer(const unsigned long long* triples, long count) noexcept;
void end() noexcept;  // the process ends: nobody waits any more
void reset_after_fork() noexcept;

}  // namespace kerncap::cuda::torch_mirror

#endif  // KERNCAP_CUDA_TORCH_MIRROR_H
