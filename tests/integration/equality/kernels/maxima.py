"""Largest elements and their places."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def largest(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.max(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0))


@triton.jit
def largest_in_steps(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.load(x + row * n)
    for at in range(1, n):
        best = tl.maximum(best, tl.load(x + row * n + at))
    tl.store(y + row, best)


@triton.jit
def largest_of_all_but_the_last(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.max(tl.load(x + row * n + at, mask=at < n - 1, other=-float("inf")), 0))


@triton.jit
def largest_or_zero(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.max(tl.load(x + row * n + at, mask=at < n, other=0.0), 0))


@triton.jit
def largest_and_then_zero(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    largest = tl.max(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0)
    tl.store(y + row, tl.maximum(largest, 0.0))


@triton.jit
def seventh_of_the_largest_in_blocks(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = 0.0
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.max(tl.load(x + row * n + at, mask=at < n, other=0.0), 0))
    tl.store(y + row, best * (1.0 / 7.0))


@triton.jit
def seventh_of_the_largest_or_zero(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.max(tl.load(x + row * n + at, mask=at < n, other=0.0), 0) / 7.0)


@triton.jit
def largest_place(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.argmax(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0))


@triton.jit
def largest_place_of_all_but_one(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(
        y + row, tl.argmax(tl.load(x + row * n + at, mask=(at < n) & (at != 50), other=-float("inf")), 0)
    )


@triton.jit
def largest_place_in_blocks(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best, place = -float("inf"), 0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        value, here = tl.max(values, 0, return_indices=True)
        larger = value > best
        best = tl.where(larger, value, best)
        place = tl.where(larger, start + here, place)
    tl.store(y + row, place)


@triton.jit
def largest_place_of_later_blocks(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best, place = -float("inf"), 0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        value, here = tl.max(values, 0, return_indices=True)
        larger = value >= best
        best = tl.where(larger, value, best)
        place = tl.where(larger, start + here, place)
    tl.store(y + row, place)


@triton.jit
def largest_place_in_its_block(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best, place = -float("inf"), 0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        value, here = tl.max(values, 0, return_indices=True)
        larger = value > best
        best = tl.where(larger, value, best)
        place = tl.where(larger, here, place)
    tl.store(y + row, place)


@triton.jit
def _larger_and_place(value, place, other, other_place):
    larger = (value > other) | ((value == other) & (place < other_place))
    return tl.where(larger, value, other), tl.where(larger, place, other_place)


@triton.jit
def largest_place_by_lanes(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, n, BLOCK):
        at = start + lanes
        value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        larger, there = _larger_and_place(best, place, value, at)
        best = tl.where(at < n, larger, best)
        place = tl.where(at < n, there, place)
    _, found = tl.reduce((best, place), 0, _larger_and_place)
    tl.store(y + row, found)


@triton.jit
def largest_place_but_one(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.argmax(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0)
    tl.store(y + row, tl.where(found == 77, 5, found))


@triton.jit
def largest_place_of_equals_above(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best, place = -float("inf"), 0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        value, here = tl.max(values, 0, return_indices=True)
        larger = (value > best) | ((value == best) & (value > 5000.0))
        best = tl.where(larger, value, best)
        place = tl.where(larger, start + here, place)
    tl.store(y + row, place)


@triton.jit
def largest_place_stored_twice(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.argmax(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0)
    tl.store(y + row, found)
    tl.store(y + row, tl.load(y + row) & 1023)


@triton.jit
def least_place(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.argmin(tl.load(x + row * n + at, mask=at < n, other=float("inf")), 0))


@triton.jit
def sorted_rows(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.sort(tl.load(x + row * n + at, mask=at < n, other=float("inf")))
    tl.store(y + row * n + at, found, mask=at < n)


@triton.jit
def sorted_rows_of_two(x, y, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * 2 + tl.arange(0, 2)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    mask = at < n
    found = tl.sort(tl.load(x + rows * n + at, mask=mask, other=float("inf")))
    tl.store(y + rows * n + at, found, mask=mask)


@triton.jit
def sorted_rows_down(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.sort(tl.load(x + row * n + at, mask=at < n, other=float("inf")), descending=True)
    tl.store(y + row * n + at, found, mask=at < n)


@triton.jit
def sorted_rows_clipped(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.sort(tl.load(x + row * n + at, mask=at < n, other=1e30))
    tl.store(y + row * n + at, found, mask=at < n)


@triton.jit
def top_four(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.topk(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 4)
    tl.store(y + row * n + tl.arange(0, 4), found)


@triton.jit
def top_four_of_two_rows(x, y, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * 2 + tl.arange(0, 2)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    found = tl.topk(tl.load(x + rows * n + at, mask=at < n, other=-float("inf")), 4)
    tl.store(y + rows * n + tl.arange(0, 4)[None, :], found)


@triton.jit
def top_four_of_sizes(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    found = tl.topk(tl.abs(tl.load(x + row * n + at, mask=at < n, other=0.0)), 4)
    tl.store(y + row * n + tl.arange(0, 4), found)


@triton.jit
def _larger(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _smaller(a, b):
    return tl.where((a > b) | (a != a), b, a)


@triton.jit
def _larger_by_half(a, b):
    return tl.where((a > b * 0.5) | (a != a), a, b)


@triton.jit
def largest_by_choices(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.reduce(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0, _larger))


@triton.jit
def largest_by_the_other_choice(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.reduce(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0, _smaller))


@triton.jit
def largest_by_half(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(
        y + row, tl.reduce(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0, _larger_by_half)
    )


@triton.jit
def least_but_nan(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    other = value * value
    tl.store(
        y + at, tl.where(libdevice.isnan(value) == 0, tl.where(value <= other, value, other), 0.0), at < n
    )


@triton.jit
def least_of_two(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(y + at, tl.minimum(value * value, value), at < n)
