import triton
import triton.language as tl

from kc_cases import lib
from kc_cases.inner.other import scale

FACTOR = tl.constexpr(100.0)
MAX = lib.max


@triton.jit
def with_builtin(x, N: tl.constexpr):
    return x + max(N, 3)


@triton.jit
def shadows(x, FACTOR):
    scale = x * FACTOR
    return scale


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    result = scale(value) + lib.scale(value) + FACTOR
    result = with_builtin(shadows(result, FACTOR=1.0), 2)
    tl.store(y + at, MAX(result, 130.0))


def expected(x):
    return (12 * x + 100 + 3).clamp(min=130)
