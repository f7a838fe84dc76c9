// CUDA arrays, textures and surfaces.
#ifndef KERNCAP_RIG_ARRAYS_H
#define KERNCAP_RIG_ARRAYS_H

#include "state.h"

namespace rig {

// A row of an array on the host, from `x` bytes in; null: out of range or no array.
uint8_t* array_row(CUarray array, size_t x, size_t y, size_t z, size_t width);

}  // namespace rig

#endif  // KERNCAP_RIG_ARRAYS_H
