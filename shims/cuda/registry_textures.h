// The textures, surfaces and mipmapped arrays that the target has made.
#ifndef KERNCAP_CUDA_REGISTRY_TEXTURES_H
#define KERNCAP_CUDA_REGISTRY_TEXTURES_H

#include <cstdint>
#include <vector>

#include "cuda/cuda_api.h"

namespace kerncap::cuda {

struct LiveTexture {
  uint64_t handle;
  bool is_surface;
  CUcontext context;
};

// Of a context, in the order in which they were made.
std::vector<LiveTexture> textures_of(CUcontext context) noexcept;
// 0: no mipmapped array of this handle is known.
unsigned levels_of(CUmipmappedArray array) noexcept;
// Whether an array is a level of a mipmapped one, and of which.
bool find_level(CUarray array, CUmipmappedArray* whole, unsigned* level) noexcept;
size_t texture_references() noexcept;

// --- for the wrappers ---------------------------------------------------------------------------

void note_texture(uint64_t handle, bool is_surface) noexcept;    // made in the current context
void forget_texture(uint64_t handle, bool is_surface) noexcept;  // before it is destroyed, in the current one
void forget_textures(CUcontext context) noexcept;
void note_mipmapped(CUmipmappedArray array, unsigned levels) noexcept;
void note_level(CUarray array, CUmipmappedArray whole, unsigned level) noexcept;
void forget_mipmapped(CUmipmappedArray array) noexcept;
void note_texture_reference() noexcept;

namespace detail {
void lock_textures() noexcept;
void unlock_textures() noexcept;
void forget_textures_after_fork() noexcept;
}  // namespace detail

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_REGISTRY_TEXTURES_H
