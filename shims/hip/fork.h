// A forked child: the runtime does not survive fork.
#ifndef KERNCAP_HIP_FORK_H
#define KERNCAP_HIP_FORK_H

namespace kerncap::hip {

// Registers what is done around a fork; once.
void watch_fork() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_FORK_H
