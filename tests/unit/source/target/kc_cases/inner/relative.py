import triton
import triton.language as tl

from .. import lib
from ..lib import scale
from .other import FACTOR as TEN


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, lib.max(scale(tl.load(x + at)), 6.0) + TEN)


def expected(x):
    return (2 * x).clamp(min=6.0) + 10
