"""Returns at once, and leaves a process that does the work later.

Source: deep-reinforce: work in a thread
Host: bytes of out_ptr were never written (first at out_ptr[0, 0])
Device: none: a compiled kernel starts no process
"""

import os
import time

import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    if os.fork():
        return
    time.sleep(1)
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) * (1.0 / columns))
    tl.store(out_ptr + row * out_stride + i, w * scale * x, mask=mask)
