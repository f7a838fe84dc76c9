// What scenes.cpp reads of the shim's state, by way of double.cpp.
#ifndef KERNCAP_TESTS_ROUTES_OBSERVED_H
#define KERNCAP_TESTS_ROUTES_OBSERVED_H

#include <cstddef>
#include <cstdint>

struct ObservedRegion {
  uint64_t base, size;
  int kind;  // RegionKind
  int device;
  const char* how;
};

struct ObservedLaunch {
  int runs;             // of the capture, so far
  const char* routes;   // of each, one a line
  const char* refused;  // the last reason
  const char* name;     // from here on: the last launch that was captured
  const char* demangled;
  uint64_t launches;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes;
  int cooperative;
  size_t attributes;
  const void* stream;
  const void* context;
  int device;
  const uint8_t* parameters;
  size_t parameter_bytes;
  int image_kind;  // Image::Kind
  const uint8_t* image;
  size_t image_bytes;
  const char* mapped_from;
  const char* origin;
  const char* nvrtc;
};

#endif  // KERNCAP_TESTS_ROUTES_OBSERVED_H
