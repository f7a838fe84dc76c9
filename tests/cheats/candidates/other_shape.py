"""Right for rows of 64 columns, which is another shape than this one.

Source: robust-kbench: shapes that are written into the source
Host: bytes of out_ptr were never written (first at out_ptr[0, 64])
Device: bytes of out_ptr were never written (first at out_ptr[0, 64])
"""

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    columns = 64
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = tl.sqrt(columns / tl.sum(x * x, axis=0))
    tl.store(out_ptr + row * out_stride + i, x * scale * w, mask=mask)
