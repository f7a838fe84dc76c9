// Textures and surfaces: what a kernel reads and writes through a number instead of an address.
#ifndef KERNCAP_COMMON_TEXTURES_H
#define KERNCAP_COMMON_TEXTURES_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerncap {

// An array whose order of bytes only the driver knows, as it describes it. `size` is that of all its levels,
// one after the other, row by row.
struct ArrayShape {
  uint64_t width = 0, height = 0, depth = 0;  // elements; 0: no such dimension
  uint32_t format = 0, channels = 0, flags = 0, levels = 1;
  uint64_t size = 0;
};

// An object that is alive. Names of its fields are those of the manifest.
struct TextureObject {
  uint64_t handle = 0;
  const char* kind = "";      // word::texture_kind
  const char* resource = "";  // word::texture_resource
  uint64_t array = 0;         // the driver's handle of the array, or of the mipmapped one; 0: plain memory
  ArrayShape shape;           // of the array
  uint32_t level = 0;         // of the mipmapped array whose level the resource is
  uint64_t address = 0;       // of plain memory, as are all to `pitch`; elements and bytes
  uint64_t width = 0, height = 0, pitch = 0;
  uint32_t format = 0, channels = 0;
  std::vector<uint8_t> sampler, view;  // the driver's structures; empty for none
  std::string problem;                 // why a reproducer can't hold what is behind it
  std::string reason;                  // why the launch may use it
  size_t region = 0;                   // of the array
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_TEXTURES_H
