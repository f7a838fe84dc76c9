import triton
import triton.language as tl

import kc_cases.inner.other
import kc_cases.lib as lib


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    scale = lib.scale(value)  # a local of the helper's name
    value = kc_cases.inner.other.scale(value) * lib.FACTOR
    tl.store(y + at, scale + value)


def expected(x):
    return 2 * x + 20 * x
