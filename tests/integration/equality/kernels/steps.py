"""A softmax, and twice a number, in several launches; and what only looks like these."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def largest(x, tops, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(tops + row, tl.max(tl.load(x + row * n + at, at < n, other=-float("inf")), 0))


@triton.jit
def powers(x, tops, out, sums, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.exp(tl.load(x + row * n + at, at < n, other=-float("inf")) - tl.load(tops + row))
    tl.store(out + row * n + at, value, at < n)
    tl.store(sums + row, tl.sum(value, 0))


@triton.jit
def divided(out, sums, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(out + row * n + at, at < n)
    tl.store(out + row * n + at, value / tl.load(sums + row), at < n)


@triton.jit
def divided_by_the_next(out, sums, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(out + row * n + at, at < n)
    last = tl.num_programs(0) - 1
    tl.store(out + row * n + at, value / tl.load(sums + tl.minimum(row + 1, last)), at < n)


@triton.jit
def scaled(x, y, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * scale)


@triton.jit
def scaled_twice(x, y, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * scale * scale)


@triton.jit
def in_place(x, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * scale)


@triton.jit
def in_place_squared(x, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * scale * scale)


@triton.jit
def in_place_but_one(x, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * scale, at > 0)


@triton.jit
def all_large(x, flag, BLOCK: tl.constexpr):
    """Whether a number of combinations that no filling reaches, of floats, is there: as an integer."""
    at = tl.arange(0, BLOCK)
    tl.store(flag, tl.sum((tl.load(x + at) * (at + 2) > 100.5).to(tl.int32), 0) // BLOCK)


@triton.jit
def scaled_by_flag(x, y, flag, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * scale * (1 - tl.load(flag)).to(tl.float32))


@triton.jit
def stored_by_flag(x, y, flag, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * scale)
    if tl.load(flag) > 0:
        tl.store(y + at, at * 0.0)
