"""A candidate that does nothing. It must fail, even where the buffer already holds the right answer."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    pass
