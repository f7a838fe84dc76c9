// cuda.h with every version of every function under its own ELF symbol.
//
// Plain <cuda.h> renames (`cuMemAlloc` is a macro for `cuMemAlloc_v2`), which would rename the rows of
// hooks.def and calls.def too. The whole shim is compiled with __CUDA_API_VERSION_INTERNAL
// (CMakeLists.txt), so that every file sees the same struct Driver.
#ifndef KERNCAP_CUDA_CUDA_API_H
#define KERNCAP_CUDA_CUDA_API_H

#ifndef __CUDA_API_VERSION_INTERNAL
#ifdef CUDA_VERSION
#error "include cuda/cuda_api.h before <cuda.h>, or define __CUDA_API_VERSION_INTERNAL"
#endif
#define __CUDA_API_VERSION_INTERNAL
#endif

#include <cuda.h>

#if CUDA_VERSION < 12000
#error "the CUDA shim needs cuda.h of CUDA 12.0 or newer"
#endif

#endif  // KERNCAP_CUDA_CUDA_API_H
