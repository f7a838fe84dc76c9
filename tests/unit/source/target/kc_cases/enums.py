import enum
from collections import namedtuple
from typing import NamedTuple

import triton
import triton.language as tl
from triton import constexpr_function


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


class Step(NamedTuple):
    size: int
    bias: float = 1.0


Shift = namedtuple("Shift", ["left", "right"])
MODE = tl.constexpr(Mode.MULTIPLY)
STEP = tl.constexpr(Step(size=4))
SHIFT = tl.constexpr(Shift(2, right=Step(1, 3)))


@constexpr_function
def multiplies(mode):
    return mode is Mode.MULTIPLY


@constexpr_function
def total(step, shift):
    return step.bias + shift.right.bias + shift.left


@triton.jit
def kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    if multiplies(MODE):
        value = value * 3.0
    more: tl.constexpr = total(STEP, SHIFT)
    tl.store(y + at, value + more)


def expected(x):
    return x * 3 + 1 + 3 + 2
