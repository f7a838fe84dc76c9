// Code objects as the runtime's readers were given them: kept for as long as the process lives.
#ifndef KERNCAP_HIP_IMAGES_H
#define KERNCAP_HIP_IMAGES_H

#include "common/launch.h"

namespace kerncap::hip {

// Null where memory is short. Bytes in a library's own mapping are not copied.
Image* image_of(const void* bytes, size_t size) noexcept;
Image* image_of_file(int fd) noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_IMAGES_H
