// Code objects as the runtime's readers were given them: kept for as long as the process lives.
#ifndef KERNCAP_HIP_IMAGES_H
#define KERNCAP_HIP_IMAGES_H

#include "common/launch.h"
#include "common/runtime_programs.h"

namespace kerncap::hip {

// Null where memory is short. Bytes in a library's own mapping are not copied.
Image* image_of(const void* bytes, size_t size) noexcept;
Image* image_of_file(int fd) noexcept;

// A code object that HIPRTC made of this program: an image with the same bytes comes from it.
void note_program(const void* code, size_t size, const RuntimeProgram& program) noexcept;
// False: the image was not compiled by HIPRTC in this process.
bool program_of(const Image& image, RuntimeProgram* program) noexcept;

void lock_images() noexcept;
void unlock_images() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_IMAGES_H
