import functools

import triton
import triton.language as tl
from triton import constexpr_function

BASE = 5
plus = lambda value: value + BASE


@functools.lru_cache(maxsize=None)
def doubled(value):
    """Plain Python, called while compiling."""
    return value * 2


@constexpr_function
def offset(block):
    # runs on the host
    return plus(doubled(block)) + sum(each * 1 for each in range(3))


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    more: tl.constexpr = offset(B)
    tl.store(y + at, tl.load(x + at) + more)


compiles = False  # the JIT refuses plain Python functions, the interpreter does not


def expected(x):
    return x + 32 + 5 + 3
