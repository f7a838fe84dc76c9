"""Runs Python of its own in place of the kernel, and keeps results there.

Source: KernelBench: a wrapper in place of the kernel
Host: it is not a function of Triton's but of a InterpretedFunction that its module defines
Device: none: the class that it derives from is the interpreter's
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
    tl.store(out_ptr + row * out_stride + i, x * scale * w, mask=mask)


class InterpretedFunction(type(rms_rows)):
    """Looks like Triton's own."""


rms_rows = InterpretedFunction(rms_rows.fn)
