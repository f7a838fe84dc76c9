// Images as the target gave them to the driver, kept for as long as the process lives: kernels are launched,
// and their images written, until its end.
#ifndef KERNCAP_COMMON_KEPT_IMAGES_H
#define KERNCAP_COMMON_KEPT_IMAGES_H

#include <string>

#include "common/launch.h"
#include "common/runtime_programs.h"

namespace kerncap::images {

constexpr size_t copied_limit = 1ULL << 30;

Image* unknown(const char* why = "");

// Bytes in a library's own mapping are referenced.
Image* mapped(Image::Kind kind, const uint8_t* data, size_t size, std::string file);

// Others are copied, with a zero at the end; equal ones once, 1 GiB in all: past that kind is unknown and
// `origin` says why.
Image* copied(Image::Kind kind, const uint8_t* data, size_t size, const std::string& origin);

// An image with the same bytes comes from this result of a compiler or a linker. Without a program it was
// made of other inputs.
void remember_result(const uint8_t* data, size_t size, const RuntimeProgram* program,
                     const char* origin) noexcept;
// False: it was not compiled in this process.
bool program_of(const uint8_t* data, size_t size, RuntimeProgram* program) noexcept;

// Around a fork.
void lock() noexcept;
void unlock() noexcept;

}  // namespace kerncap::images

#endif  // KERNCAP_COMMON_KEPT_IMAGES_H
