"""Floats that are made whole by way of integers."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def whole(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) * 2.0
    tl.store(y + at, value.to(tl.int32).to(tl.float32) * 0.5, mask=at < n)


@triton.jit
def whole_of_a_sum(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, (value + value).to(tl.int32).to(tl.float32) / 2.0, mask=at < n)


@triton.jit
def whole_by_floor(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.floor(tl.load(x + at, mask=at < n) * 2.0) * 0.5, mask=at < n)


@triton.jit
def whole_in_eight_bits(x, y, n, BLOCK: tl.constexpr):
    """The same of numbers below 64."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) * 2.0
    tl.store(y + at, value.to(tl.int8).to(tl.float32) * 0.5, mask=at < n)


@triton.jit
def whole_but_one(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = (tl.load(x + at, mask=at < n) * 2.0).to(tl.int32)
    tl.store(y + at, tl.where(value == 1234567, 0.0, value.to(tl.float32) * 0.5), mask=at < n)


@triton.jit
def whole_but_one_by_a_branch(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) * 2.0
    tl.store(y + at, value.to(tl.int32).to(tl.float32) * 0.5, mask=at < n)
    first = (tl.load(x) * 2.0).to(tl.int32)
    if first == 1234567:
        tl.store(y, first.to(tl.float32))
