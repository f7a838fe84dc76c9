// What stands for `run` of Triton's kernels, where a shim is loaded: in Python the look-up alone would cost
// more than all else that a launch of no interest does. Python's side:
// shims/triton/kerncap_triton/native_run.py.
//
// Everything here is called with the interpreter's lock held.
#ifndef KERNCAP_CUDA_RUN_LOOKUP_H
#define KERNCAP_CUDA_RUN_LOOKUP_H

namespace kerncap::cuda::run_lookup {

// `descriptor` stands for `original`, a function. False: this is no CPython. Both functions are kept for
// good.
bool add(void* descriptor, void* original, void* watched) noexcept;
// So many launches of `kernel` go to the original; it is counted down. Null: none. A null kernel: of none.
void count(void* kernel, long long* left) noexcept;
// The descriptor's tp_descr_get: `original` or `watched`, bound to the kernel.
void* get(void* descriptor, void* kernel) noexcept;

}  // namespace kerncap::cuda::run_lookup

#endif  // KERNCAP_CUDA_RUN_LOOKUP_H
