"""Rows chosen by an index."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gathered(x, index, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * n + at, tl.load(x + tl.load(index + row) * n + at, mask=at < n), mask=at < n)


@triton.jit
def gathered_by_masks(x, index, y, n, BLOCK: tl.constexpr):
    """Every row of x, of which the wanted one is kept."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    wanted = tl.load(index + row)
    found = tl.zeros([BLOCK], tl.float32)
    for one in range(tl.num_programs(0)):
        found += tl.where(one == wanted, tl.load(x + one * n + at, mask=at < n, other=0.0), 0.0)
    tl.store(y + row * n + at, found, mask=at < n)


@triton.jit
def gathered_from_the_first(x, index, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    wanted = tl.load(index + row)
    wanted = tl.where(wanted > 3, wanted, 0)
    tl.store(y + row * n + at, tl.load(x + wanted * n + at, mask=at < n), mask=at < n)
