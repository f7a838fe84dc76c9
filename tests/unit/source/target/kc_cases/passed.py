import triton
import triton.language as tl

from kc_cases.inner.other import scale


@triton.jit
def combine(value, pair, f: tl.constexpr):
    return f(value) + pair[0] + pair[1]


@triton.jit
def kernel(x, y, f: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    pair = (tl.load(x + at), 2.0)
    tl.store(y + at, combine(tl.load(x + at), pair, f))


extra = [scale]
signature = {"x": "*fp32", "y": "*fp32", "f": "constexpr", "B": "constexpr"}


def launch(kernel, x, y, module):
    kernel[(1,)](x, y, module.scale, 16)


def expected(x):
    return 11 * x + 2
