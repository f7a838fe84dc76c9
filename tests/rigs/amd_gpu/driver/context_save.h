// The context save area: where the GPU puts the waves of a queue that is taken off it.
#ifndef KERNCAP_AMD_GPU_CONTEXT_SAVE_H
#define KERNCAP_AMD_GPU_CONTEXT_SAVE_H

namespace amd_gpu {

struct Queue;

// Writes `queue.waves`, and the area's header as amdkfd does. Nothing for a queue with no area.
void save_context(const Queue& queue);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_CONTEXT_SAVE_H
