"""Reads on past its input, looking for a result.

Source: pygpubench, gpu_scan_zeros
Host: sanitizer: oob: load of 4 bytes at x_ptr
Device: sanitizer: oob: load of 4 bytes at x_ptr
"""

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i)
    x = tl.where(mask, x, 0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) * (1.0 / columns))
    tl.store(out_ptr + row * out_stride + i, w * scale * x, mask=mask)
