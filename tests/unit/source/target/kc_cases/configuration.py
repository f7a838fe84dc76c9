import dataclasses

import triton
import triton.language as tl
from triton import constexpr_function


@dataclasses.dataclass(frozen=True)
class Settings:
    bias: int = 1
    names: tuple = ("a", "b")


class Limits:
    LOW = 2
    HIGH = LOW + 5


SETTINGS = tl.constexpr(Settings(bias=4))
TABLE = {"a": 10, 3: (1, 2)}


@constexpr_function
def bias(settings):
    return settings.bias + Limits.HIGH + TABLE["a"] + TABLE[3][1]


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    more: tl.constexpr = bias(SETTINGS)
    tl.store(y + at, tl.load(x + at) + more)


def expected(x):
    return x + 4 + 7 + 10 + 2
