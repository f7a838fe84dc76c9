"""Choices that are a maximum or a minimum of what is chosen from, and choices that only look like one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kerncap.sanitizer.equality.choices import number_choice, place_choice, reduced_places, swapped_axis
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Operation, walk
from tests.integration.equality.pairs import Run, launched


@triton.jit
def larger(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) | (a != a), a, b))


@triton.jit
def smaller(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((b != b) | (a >= b), b, a))


@triton.jit
def positive(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.store(z + at, tl.where(a > 0, a, 0.0))


@triton.jit
def larger_or_another_is_nan(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    tl.store(z + at, tl.where((a > b) | (c != c), a, b))


@triton.jit
def larger_than_another(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    tl.store(z + at, tl.where(a > c, a, b))


@triton.jit
def positive_or_one(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.store(z + at, tl.where(a > 0, a, 1.0))


@triton.jit
def larger_or_differing(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) | (a != b), a, b))


@triton.jit
def ascending(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) != (at > 2), b, a))


@triton.jit
def place(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where(a > b, at, at + 5).to(tl.float32))


@triton.jit
def place_or_equal(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) | (a == b), at, at + 5).to(tl.float32))


@triton.jit
def place_of_smaller_to_the_left(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    c = at * 3
    tl.store(z + at, tl.where((a < b) | ((a == b) & (at < c)), at, c).to(tl.float32))


@triton.jit
def place_to_the_right(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    c = at * 3
    tl.store(z + at, tl.where((a > b) | ((b == a) & (c < at)), at, c).to(tl.float32))


@triton.jit
def place_unless_masked(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) & (at > 2), at, at + 5).to(tl.float32))


@triton.jit
def place_by_another(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.where((a > b) | (a > 1.0), at, at + 5).to(tl.float32))


@triton.jit
def argmax(x, y, z, BLOCK: tl.constexpr):
    tl.store(y, tl.argmax(tl.load(x + tl.arange(0, BLOCK)), 0))


@triton.jit
def argmin(x, y, z, BLOCK: tl.constexpr):
    tl.store(y, tl.argmin(tl.load(x + tl.arange(0, BLOCK)), 0))


@triton.jit
def argmax_of_any(x, y, z, BLOCK: tl.constexpr):
    tl.store(y, tl.argmax(tl.load(x + tl.arange(0, BLOCK)), 0, tie_break_left=False))


@triton.jit
def _right(value, place, other, other_place):
    left = (value > other) | ((value == other) & (place > other_place))
    return tl.where(left, value, other), tl.where(left, place, other_place)


@triton.jit
def argmax_to_the_right(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, found = tl.reduce((tl.load(x + at), at), 0, _right)
    tl.store(y, found)


@triton.jit
def _of_the_other(value, place, other, other_place):
    left = (value > other) | ((value == other) & (place > other_place))
    return tl.where(left, value, other), tl.where(left, other_place, place)


@triton.jit
def place_of_the_other(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, found = tl.reduce((tl.load(x + at), at), 0, _of_the_other)
    tl.store(y, found)


@triton.jit
def sorted_lanes(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (larger, ("maximum",)), (smaller, ("minimum",)), (positive, ("maximum",)),
        (larger_or_another_is_nan, ("maximum", "first")), (ascending, ("minimum", "maximum")),
        (larger_than_another, None), (positive_or_one, None), (larger_or_differing, None),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_what_a_choice_is(kernel: Any, wanted: tuple[str, ...] | None) -> None:
    [found] = [number_choice(one) for one in _operations(kernel, "arith.select")]
    assert (found and found.kinds) == wanted
    assert wanted is None or (found is not None and (found.decided is None) == (len(wanted) == 1))


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (place, ("maximum", "second")), (place_or_equal, ("maximum", "first")),
        (place_of_smaller_to_the_left, ("minimum", "left")), (place_to_the_right, ("maximum", "right")),
        (place_unless_masked, None), (place_by_another, None),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_what_a_choice_of_places_is(kernel: Any, wanted: tuple[str, str] | None) -> None:
    [found] = [place_choice(one) for one in _operations(kernel, "arith.select")]
    assert (found and (found.kind, found.tie)) == wanted


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (argmax, ("maximum", "left")), (argmin, ("minimum", "left")),
        (argmax_to_the_right, ("maximum", "right")), (argmax_of_any, None), (place_of_the_other, None),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_what_a_reduction_to_a_place_is(kernel: Any, wanted: tuple[str, str] | None) -> None:
    [reduction] = _operations(kernel, "tt.reduce")
    assert reduced_places(reduction) == wanted


def test_what_the_bits_of_a_sort_are() -> None:
    found = [swapped_axis(one) for one in _operations(sorted_lanes, "tt.bitcast")]
    assert [one and one[1] for one in found] == [None, 1, None, 0, None, 1]


def _operations(kernel: Any, name: str) -> list[Operation]:
    tensors = tuple(torch.zeros(64) for _ in range(3))
    body = read_module(launched(tensors, Run(kernel, (1,), {"BLOCK": 4})).ttir).kernel.body
    assert body is not None
    return [one for one in walk(body) if one.name == name]
