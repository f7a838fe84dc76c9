// Whether a file that lives in memory may grow: a memfd, or a session folder on a tmpfs.
//
// Past the limit of a memory cgroup no call fails, fallocate does not either: the kernel ends a process of
// the group, which is the target. So the limit is asked first.
#ifndef KERNCAP_COMMON_MEMORY_ROOM_H
#define KERNCAP_COMMON_MEMORY_ROOM_H

#include <cstdint>
#include <string>

namespace kerncap {

// Bytes that this process may still take, by the machine and by every memory cgroup that it is in.
uint64_t available_memory();

// Whether so much memory can be taken without the target running out of it.
bool memory_has_room(uint64_t size);

// Bytes that a file system takes before it is full, at least; of one in memory no more than memory has.
uint64_t free_space(const std::string& folder);

// What the groups of one line of /proc/self/cgroup leave; UINT64_MAX: nothing is limited, or nobody tells.
uint64_t left_in_groups(const std::string& line, const std::string& mounted_at);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_MEMORY_ROOM_H
