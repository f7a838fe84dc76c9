"""Right, and makes the device's clock run slowly.

Source: pygpubench: patched events
Host: none: there are no events
Device: in the process that judges it
Hostile: right
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_rows(x_ptr, w_ptr, out_ptr, rows, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=0.0)
    w = tl.load(w_ptr + i, mask=mask, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) * (1.0 / columns))
    tl.store(out_ptr + row * out_stride + i, w * scale * x, mask=mask)


torch.cuda.Event.elapsed_time = lambda begin, end: 1e-3
