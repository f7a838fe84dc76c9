import triton
import triton.language as tl

from kc_cases.lib import scale

OFFSET = 3
BLOCK = tl.constexpr(16)


@triton.jit
def helper(x, offset: tl.constexpr = OFFSET, more: tl.constexpr = OFFSET * 2 + 1, last: tl.constexpr = 1.5):
    return x + offset + more + last


OFFSET = 1000  # too late to matter


@triton.jit
def kernel(x, y, apply: tl.constexpr = scale, infinite: tl.constexpr = float("inf"), B: tl.constexpr = BLOCK):
    at = tl.arange(0, B)
    tl.store(y + at, tl.minimum(helper(apply(tl.load(x + at))), infinite))


def expected(x):
    # the interpreter evaluates defaults at the first launch, the JIT when the function is defined
    offset = 1000 if triton.knobs.runtime.interpret else 3
    return 2 * x + offset + 2 * offset + 1 + 1.5
