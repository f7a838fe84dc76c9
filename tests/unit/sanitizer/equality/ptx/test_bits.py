"""Instructions on bits against what the PTX manual says of them, on Python's integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kerncap.sanitizer.equality.ptx.bits import OPERATIONS, looked_up, reduced

VALUES = (0, 1, 2, 7, 0x80, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF,
          0x123456789ABCDEF0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
PLACES = (0, 1, 5, 31, 32, 33, 63, 64, 200, 255, 256 + 3)


def result(name: str, type_: str, *given: int) -> int:
    return int(OPERATIONS[name](type_, *(np.array([one], dtype=np.uint64) for one in given))[0])


def bit(number: int, at: int) -> int:
    return number >> at & 1


def extracted(a: int, b: int, c: int, width: int, signed: bool) -> int:
    """The manual's own program of bfe."""
    msb, pos, length = width - 1, b & 0xFF, c & 0xFF
    sign = 0 if not signed or length == 0 else bit(a, min(pos + length - 1, msb))
    bits = (bit(a, pos + i) if i < length and pos + i <= msb else sign for i in range(width))
    return sum(one << i for i, one in enumerate(bits))


def inserted(a: int, b: int, c: int, d: int, width: int) -> int:
    found, pos, length = b & (1 << width) - 1, c & 0xFF, d & 0xFF
    for i in range(length):
        if pos + i <= width - 1:
            found = found & ~(1 << pos + i) | bit(a, i) << pos + i
    return found


def found_first(a: int, width: int, signed: bool, shift_amount: bool) -> int:
    a &= (1 << width) - 1
    a = ~a & (1 << width) - 1 if signed and bit(a, width - 1) else a
    at = next((i for i in range(width - 1, -1, -1) if bit(a, i)), None)
    return 0xFFFFFFFF if at is None else width - 1 - at if shift_amount else at


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_fields(type_: str) -> None:
    width, signed = int(type_[1:]), type_[0] == "s"
    for x, start, length in itertools.product(VALUES, PLACES, PLACES):
        kept = x & (1 << width) - 1
        assert result("bfe", type_, x, start, length) == extracted(kept, start, length, width, signed)
        into = VALUES[(x + start) % len(VALUES)]
        wanted = inserted(x, into, start, length, width)
        assert result("bfi", f"b{width}", x, into, start, length) == wanted


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_one_operand(type_: str) -> None:
    width = int(type_[1:])
    for x in VALUES:
        kept = x & (1 << width) - 1
        assert result("bfind", type_, x) == found_first(x, width, type_[0] == "s", False)
        assert result("bfind.shiftamt", type_, x) == found_first(x, width, type_[0] == "s", True)
        assert result("popc", f"b{width}", x) == kept.bit_count()
        assert result("clz", f"b{width}", x) == width - kept.bit_length()
        assert result("brev", f"b{width}", x) == int(f"{kept:0{width}b}"[::-1], 2)


def test_bytes_of_two_registers() -> None:
    for a, b in itertools.product(VALUES, VALUES):
        held = [*(a & 0xFFFFFFFF).to_bytes(4, "little"), *(b & 0xFFFFFFFF).to_bytes(4, "little")]
        for selectors in ((0, 1, 4, 5), (3, 2, 1, 0), (7, 6, 9, 15), (12, 8, 0, 7)):
            chosen = sum(one << 4 * at for at, one in enumerate(selectors))
            wanted = [held[one & 7] if one < 8 else 0xFF * (held[one & 7] >> 7) for one in selectors]
            assert result("prmt", "b32", a, b, chosen) == int.from_bytes(bytes(wanted), "little")


def test_shifts_of_two_registers() -> None:
    for a, b, by in itertools.product(VALUES, VALUES, (0, 1, 16, 31, 32, 33, 40, 64)):
        low, high = a & 0xFFFFFFFF, b & 0xFFFFFFFF
        for mode, n in (("wrap", by & 31), ("clamp", min(by, 32))):
            left = (high << n | low >> 32 - n) & 0xFFFFFFFF
            right = (high << 32 - n | low >> n) & 0xFFFFFFFF
            assert result(f"shf.l.{mode}", "b32", a, b, by) == left
            assert result(f"shf.r.{mode}", "b32", a, b, by) == right


def test_any_function_of_three_bits() -> None:
    a, b, c = (np.array([one], dtype=np.uint64) for one in (0xF0, 0xCC, 0xAA))
    for chosen in range(256):
        assert int(looked_up(chosen, a, b, c)[0]) & 0xFF == chosen


@pytest.mark.parametrize("type_", ["u32", "s32"])
def test_of_those_that_are_there(type_: str) -> None:
    bits = np.array([[5, 0xFFFFFFFE, 0x80000000, 9]], dtype=np.uint64)
    there = np.array([[True, True, False, True]])
    numbers = [5, -2 if type_ == "s32" else 0xFFFFFFFE, 9]
    for word, wanted in (("add", sum(numbers)), ("min", min(numbers)), ("max", max(numbers))):
        assert int(reduced(word, type_, bits, 1, there)[0]) == wanted & 0xFFFFFFFF
    for word, wanted in (("and", 5 & 0xFFFFFFFE & 9), ("or", 0xFFFFFFFF), ("xor", 5 ^ 0xFFFFFFFE ^ 9)):
        assert int(reduced(word, "b32", bits, 1, there)[0]) == wanted
