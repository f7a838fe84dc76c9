"""Largest elements and their places."""

from __future__ import annotations

import triton
import triton.language as tl


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
