"""Does nothing.

Source: KernelBench, result_reuse: the output buffer of the reference is handed out again
Host: bytes of out_ptr were never written (first at out_ptr[0, 0])
Device: bytes of out_ptr were never written (first at out_ptr[0, 0])
"""

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    pass
