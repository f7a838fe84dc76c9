"""Choices that are a maximum or a minimum of what is chosen from, and choices that only look like one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kerncap.sanitizer.equality.choices import number_choice, place_choice, reduced_places, swapped_axis
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Operation, walk
from tests.integration.equality.pairs import Run, launched

# Of a, b and c, loaded from three arrays, at the places 0 to 3.
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def chosen(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    tl.store(z + at, tl.where({choice}).to(tl.float32))
"""
NUMBERS = {
    "larger": ("(a > b) | (a != a), a, b", ("maximum",)),
    "smaller": ("(b != b) | (a >= b), b, a", ("minimum",)),
    "positive": ("a > 0, a, 0.0", ("maximum",)),
    "larger or another is NaN": ("(a > b) | (c != c), a, b", ("maximum", "first")),
    "ascending": ("(a > b) != (at > 2), b, a", ("minimum", "maximum")),
    "larger than another": ("a > c, a, b", None),
    "positive or one": ("a > 0, a, 1.0", None),
    "larger or differing": ("(a > b) | (a != b), a, b", None),
}
PLACES = {
    "larger": ("a > b, at, at + 5", ("maximum", "second")),
    "larger or equal": ("(a > b) | (a == b), at, at + 5", ("maximum", "first")),
    "smaller, to the left": ("(a < b) | ((a == b) & (at < at * 3)), at, at * 3", ("minimum", "left")),
    "larger, to the right": ("(a > b) | ((b == a) & (at * 3 < at)), at, at * 3", ("maximum", "right")),
    "larger unless masked": ("(a > b) & (at > 2), at, at + 5", None),
    "by another": ("(a > b) | (a > 1.0), at, at + 5", None),
}


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


@pytest.mark.parametrize(("choice", "wanted"), NUMBERS.values(), ids=NUMBERS)
def test_what_a_choice_is(tmp_path: Path, choice: str, wanted: tuple[str, ...] | None) -> None:
    [found] = [number_choice(one) for one in _operations(chosen(tmp_path, choice), "arith.select")]
    assert (found and found.kinds) == wanted
    assert wanted is None or (found is not None and (found.decided is None) == (len(wanted) == 1))


@pytest.mark.parametrize(("choice", "wanted"), PLACES.values(), ids=PLACES)
def test_what_a_choice_of_places_is(tmp_path: Path, choice: str, wanted: tuple[str, str] | None) -> None:
    [found] = [place_choice(one) for one in _operations(chosen(tmp_path, choice), "arith.select")]
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


def chosen(folder: Path, choice: str) -> Any:
    """The kernel, from a file: Triton reads its source."""
    path = folder / "chosen.py"
    path.write_text(KERNEL.format(choice=choice))
    found: dict[str, Any] = {"__name__": "chosen"}
    exec(compile(path.read_text(), path, "exec"), found)
    return found["chosen"]


def _operations(kernel: Any, name: str) -> list[Operation]:
    tensors = tuple(torch.zeros(64) for _ in range(3))
    body = read_module(launched(tensors, Run(kernel, (1,), {"BLOCK": 4})).ttir).kernel.body
    assert body is not None
    return [one for one in walk(body) if one.name == name]
