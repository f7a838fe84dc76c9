import triton
import triton.language as tl


@triton.jit
def kernel(x, y, B: tl.constexpr):
    # a comment that must stay
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) + 1.0)  # so must this


def expected(x):
    return x + 1
