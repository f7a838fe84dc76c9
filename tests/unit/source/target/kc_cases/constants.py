import math

import triton
import triton.language as tl

TENTH = tl.constexpr(0.1)
LOWEST = tl.constexpr(float("-inf"))
NOT_A_NUMBER = tl.constexpr(float("nan"))
MODE = tl.constexpr("add\n'\"")
NOTHING = tl.constexpr(None)
FLAG = tl.constexpr(True)
BIG = tl.constexpr(2**40 + 1)
DTYPE = tl.constexpr(tl.float16)
BARE_DTYPE = tl.float32
PAIR = tl.constexpr((1, 2.5))


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at).to(DTYPE).to(BARE_DTYPE)
    value = tl.maximum(value, LOWEST)
    value = tl.where(value == NOT_A_NUMBER, 0.0, value)
    if MODE == "add\n'\"" and NOTHING is None:
        value += TENTH
    if FLAG:
        value += BIG
        value -= BIG - 1
    tl.store(y + at, value * PAIR[1] + math.pi)


def expected(x):
    return (x + 0.1 + float(2**40 + 1) - float(2**40)) * 2.5 + math.pi
