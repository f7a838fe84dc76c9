// The file that an address of this process is mapped from.
#ifndef KERNCAP_COMMON_MAPPED_FILE_H
#define KERNCAP_COMMON_MAPPED_FILE_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace kerncap {

struct MappedFile {
  std::string path;  // as /proc/self/maps has it; empty for memory without a name
  bool shared = false;
};

MappedFile mapped_file(uint64_t address);

// The library or program whose unwritable segment holds these bytes; empty for none.
std::string library_with(const uint8_t* data, size_t size);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_MAPPED_FILE_H
