"""Launches of many programs: what one of them does not, and what they do to each other."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n)


@triton.jit
def doubled_but_one(x, y, n, BLOCK: tl.constexpr):
    """One program of many does something else."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(y + at, value * 2.0 + (tl.program_id(0) == 1234).to(tl.float32), at < n)


@triton.jit
def doubled_but_the_last(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n - 1)


@triton.jit
def added_in_place(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, at < n) + tl.load(x + at, at < n), at < n)


@triton.jit
def added_by_halves(x, y, n, BLOCK: tl.constexpr):
    """Twice as many programs, of which two add to the same."""
    at = tl.program_id(0) // 2 * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + at, tl.load(x + at, at < n) * 0.5, at < n)


@triton.jit
def added_to_the_next(x, y, n, BLOCK: tl.constexpr):
    """Each reads what the next one stores."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at + BLOCK, at + BLOCK < n, other=0.0) + tl.load(x + at, at < n), at < n)


@triton.jit
def doubled_by_counter(x, y, counter, n, BLOCK: tl.constexpr):
    """Which part a program works on depends on who came first."""
    at = tl.atomic_add(counter, 1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n)


@triton.jit
def places(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, at, at < n)


@triton.jit
def places_from_one(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, at + 1, at < n)
