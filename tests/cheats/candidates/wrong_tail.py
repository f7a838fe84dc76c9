"""The last, incomplete part of a row is not normalised.

Source: robust-kbench: right where the check looks
Host: differs only in out_ptr[0:4, 96:100]
Device: differs only in out_ptr[0:4, 96:100]
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
    tl.store(out_ptr + row * out_stride + i, tl.where(i < columns // 32 * 32, x * scale, x) * w, mask=mask)
