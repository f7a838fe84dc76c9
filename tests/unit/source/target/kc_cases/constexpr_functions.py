import math

import triton
import triton.language as tl
from triton import constexpr_function

BASE = 5


@constexpr_function
def doubled(value):
    """Called while compiling."""
    return value * 2


@constexpr_function
def offset(block):
    # runs on the host
    return doubled(block) + int(math.log2(block)) + sum(each * 1 for each in range(3)) + BASE


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    more: tl.constexpr = offset(B)
    tl.store(y + at, tl.load(x + at) + more)


def expected(x):
    return x + 32 + 4 + 3 + 5
