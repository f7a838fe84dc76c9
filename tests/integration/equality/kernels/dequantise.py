"""Products of quantised weights."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def dequantised(q, scales, x, y, n, BLOCK: tl.constexpr):
    """Rows of 8-bit weights with one scale each, times a vector."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    weight = tl.load(q + row * n + at, mask=at < n, other=0).to(tl.float32) * tl.load(scales + row)
    tl.store(y + row, tl.sum(weight * tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def dequantised_at_the_end(q, scales, x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        weight = tl.load(q + row * n + at, mask=at < n, other=0)
        total += weight.to(tl.float32) * tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + row, tl.sum(total, 0) * tl.load(scales + row))


@triton.jit
def dequantised_off_by_a_zero(q, scales, x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    weight = (tl.load(q + row * n + at, mask=at < n, other=0).to(tl.float32) - 1) * tl.load(scales + row)
    tl.store(y + row, tl.sum(weight * tl.load(x + at, mask=at < n, other=0.0), 0))
