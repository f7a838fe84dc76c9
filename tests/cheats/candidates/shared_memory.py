"""Adds up lanes that it did not load. Triton has no way to what was in shared memory before: such lanes are
zeros on every target, which the sanitizer notes, and the result is right.

Source: wafer.ai: shared memory that is read uninitialised
Host: right
Device: right
"""

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) * (1.0 / columns))
    tl.store(out_ptr + row * out_stride + i, w * scale * x, mask=mask)
