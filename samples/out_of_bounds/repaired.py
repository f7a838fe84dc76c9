"""The kernel with its mask."""

import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, scores_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=2.0)
    tl.store(scores_ptr + offsets, x * x, mask=offsets < n)
