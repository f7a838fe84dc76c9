// Which descriptors are our devices. Told by the inode of the file behind it and not by number: a descriptor
// may be duplicated, closed without us, or inherited, and a vfork child must not change what its parent
// knows.
#ifndef KERNCAP_AMD_GPU_FILES_H
#define KERNCAP_AMD_GPU_FILES_H

namespace amd_gpu::files {

enum class Kind { other, kfd, render, inherited };

struct Found {
  Kind kind = Kind::other;
  unsigned ordinal = 0;
};

void own(int file, Kind kind, unsigned ordinal);
// In a forked child: what was ours is the parent's now.
void disown();
Found find(int descriptor);

// Another descriptor of `file`, with a number that no shell or test expects to be free.
int duplicate(int file);

}  // namespace amd_gpu::files

#endif  // KERNCAP_AMD_GPU_FILES_H
