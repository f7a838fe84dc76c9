"""Instructions on integers against Python's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kerncap.sanitizer.equality.ptx.integers import COMPARISONS, OPERATIONS, typed

VALUES = (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 0x7F, 0x80, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
          0x123456789ABCDEF0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip


def number(bits: int, type_: str) -> int:
    width = int(type_[1:])
    bits &= (1 << width) - 1
    return bits - (1 << width) if type_[0] == "s" and bits >> (width - 1) else bits


def quotient(x: int, y: int) -> int:
    found = abs(x) // abs(y)
    return -found if (x < 0) != (y < 0) else found


def shifted(x: int, by: int, left: bool, width: int) -> int:
    by = min(by & 0xFFFFFFFF, width)
    return x << by if left else x >> by


TWO: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda x, y, w: x + y,
    "sub": lambda x, y, w: x - y,
    "mul.lo": lambda x, y, w: x * y,
    "mul.hi": lambda x, y, w: x * y >> w,
    "div": lambda x, y, w: quotient(x, y),
    "rem": lambda x, y, w: x - quotient(x, y) * y,
    "min": lambda x, y, w: min(x, y),
    "max": lambda x, y, w: max(x, y),
    "and": lambda x, y, w: x & y,
    "or": lambda x, y, w: x | y,
    "xor": lambda x, y, w: x ^ y,
}


TYPES = ("s16", "u16", "s32", "u32", "s64", "u64")
TYPES_OF = {"mul.hi": ("s32", "u32", "u64"), "mul.wide": TYPES[:4]}  # those that are modelled, of fewer


@pytest.mark.parametrize(
    ("name", "type_"),
    [(name, one) for name in (*TWO, "shl", "shr", "mul.wide", "mad.lo") for one in TYPES_OF.get(name, TYPES)],
)
def test_two_operands(name: str, type_: str) -> None:
    width = int(type_[1:])
    for x in VALUES:
        for y in VALUES:
            a, b = number(x, type_), number(y, type_)
            if name in ("div", "rem") and b == 0:
                continue
            bits = [np.array([one], dtype=np.uint64) for one in (x, y)]
            mask = (1 << width) - 1
            if name in ("shl", "shr"):
                wanted = shifted(a, y, name == "shl", width)
            elif name == "mul.wide":
                wanted, mask = a * b, (1 << 2 * width) - 1
            elif name == "mad.lo":
                wanted = a * b + 5
                bits.append(np.array([5], dtype=np.uint64))
            else:
                wanted = TWO[name](a, b, width)
            found = int(OPERATIONS[name](type_, *bits)[0])
            assert found == wanted & mask, (name, type_, x, y)


@pytest.mark.parametrize("type_", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", list(COMPARISONS))
def test_comparisons(name: str, type_: str) -> None:
    for x in VALUES:
        for y in VALUES:
            a, b = number(x, type_), number(y, type_)
            wanted = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]
            one, other = (typed(np.array([v], dtype=np.uint64), type_) for v in (x, y))
            assert bool(COMPARISONS[name](one, other)[0]) == wanted
