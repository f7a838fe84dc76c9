// What kernels print. The driver writes it to the C library's stdout when somebody waits for the device, and
// on a thread of its own every now and then; no call gives it. So the functions by which the driver writes,
// and they only, are routed to ours: what the target itself writes is not touched, nor is any descriptor.
#ifndef KERNCAP_CUDA_PRINTED_H
#define KERNCAP_CUDA_PRINTED_H

#include <string>

namespace kerncap::cuda::printed {

// What a kernel of ours prints so that the driver says when it writes.
constexpr char mark = '\x01';

// From now on what the driver writes is kept back, unless a thread of the target waits for the device itself.
void hold() noexcept;
// All is idle, and what was printed is written: what comes from here on is the launch's. False: it can't be
// seen.
bool begin() noexcept;
// That; empty if there is too much. What comes from now on is thrown away, as the launch is made again.
std::string take();
// What is kept back is written in place of the mark, which is the next that the driver writes: true, if a
// mark is to be printed. False: there is one already, another thread still holds, or nothing is kept back.
bool end() noexcept;
// What is kept back, at once.
void write_now() noexcept;

void reset_after_fork() noexcept;

}  // namespace kerncap::cuda::printed

#endif  // KERNCAP_CUDA_PRINTED_H
