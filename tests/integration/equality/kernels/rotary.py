"""Rotary embedding."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rope(x, cosines, sines, y, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    inside = at < n // 2
    first = tl.load(x + row * n + at, mask=inside)
    second = tl.load(x + row * n + n // 2 + at, mask=inside)
    c = tl.load(cosines + at, mask=inside)
    s = tl.load(sines + at, mask=inside)
    tl.store(y + row * n + at, first * c - second * s, mask=inside)
    tl.store(y + row * n + n // 2 + at, second * c + first * s, mask=inside)


@triton.jit
def rope_rotated(x, cosines, sines, y, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, 2 * HALF)
    inside = at < n
    turned = tl.where(at < n // 2, at + n // 2, at - n // 2)
    sign = tl.where(at < n // 2, -1.0, 1.0)
    value = tl.load(x + row * n + at, mask=inside)
    other = tl.load(x + row * n + turned, mask=inside) * sign
    c = tl.load(cosines + at % (n // 2), mask=inside)
    s = tl.load(sines + at % (n // 2), mask=inside)
    tl.store(y + row * n + at, value * c + other * s, mask=inside)


@triton.jit
def rope_other_sign(x, cosines, sines, y, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    inside = at < n // 2
    first = tl.load(x + row * n + at, mask=inside)
    second = tl.load(x + row * n + n // 2 + at, mask=inside)
    c = tl.load(cosines + at, mask=inside)
    s = tl.load(sines + at, mask=inside)
    tl.store(y + row * n + at, first * c + second * s, mask=inside)
    tl.store(y + row * n + n // 2 + at, second * c - first * s, mask=inside)
