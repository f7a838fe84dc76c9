// Images as the target gives them to the driver: how long they are, where their bytes stay, and
// where they came from.
#ifndef KERNCAP_CUDA_IMAGES_H
#define KERNCAP_CUDA_IMAGES_H

#include <string>
#include <utility>
#include <vector>

#include "common/launch.h"
#include "common/runtime_programs.h"

namespace kerncap::cuda {

// The kind and the size of what `data` points at, a fatbin's wrapper followed: `*start` is where the
// image itself begins. Reads no further than the image's own headers say. Size 0: unknown.
Image::Kind measure(const void* data, const uint8_t** start, size_t* size) noexcept;

// The image object for bytes in memory; bytes that lie in a read-only mapping of a file are
// referenced, others copied (equal ones once, 1 GiB in all; past that kind is unknown and `origin`
// says why). Never null, except when memory is short.
Image* image_of(const void* data) noexcept;
Image* image_of_file(const char* path) noexcept;

// False: the image was not compiled by NVRTC in this process.
bool program_of(const Image& image, RuntimeProgram* program) noexcept;

// For the wrappers of NVRTC and of the linker: an image with the same bytes comes from this result of theirs.
void remember_result(const void* data, size_t size, const RuntimeProgram* program,
                     const char* origin) noexcept;
bool program_of_bytes(const void* data, size_t size, RuntimeProgram* program) noexcept;

// The parameters of a kernel as a bare cubin's .nv.info section lists them, for drivers that have no
// function to ask. False: none is found.
bool layout_in_cubin(const Image& image, const std::string& kernel, std::vector<Parameter>* layout) noexcept;

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_IMAGES_H
