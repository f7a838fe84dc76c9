import triton
import triton.language as tl

from kc_cases.lib import scale
from kc_cases.inner.other import scale as louder


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, louder(tl.load(x + at)) + scale(tl.load(x + at)))


def expected(x):
    return 12 * x
