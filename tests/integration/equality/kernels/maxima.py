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
