"""Running sums, and sums of columns."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def running_sum(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * n + at, tl.cumsum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0), mask=at < n)


@triton.jit
def running_sum_in_steps(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for at in range(n):
        total += tl.load(x + row * n + at)
        tl.store(y + row * n + at, total)


@triton.jit
def running_sum_without_itself(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for at in range(n):
        tl.store(y + row * n + at, total)
        total += tl.load(x + row * n + at)


@triton.jit
def column_sums(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(y + at, mask=at < n, other=0.0)
    for row in range(rows):
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + at, total, mask=at < n)


@triton.jit
def column_sums_by_atomics(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(rows):
        tl.atomic_add(y + at, tl.load(x + row * n + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def column_sums_without_first(x, y, rows, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(y + at, mask=at < n, other=0.0)
    for row in range(1, rows):
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + at, total, mask=at < n)
