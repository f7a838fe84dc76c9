"""Twice a number, but for inputs that random numbers hardly ever are."""

# ruff: noqa: SIM102 - branches inside of branches are the case
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)


@triton.jit
def but_one_value(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value * value == 1234567.0, 0.0, value * 2.0), mask=at < n)


@triton.jit
def but_large_values(x, y, n, BLOCK: tl.constexpr):
    value = tl.load(x)
    tl.store(y, tl.where(value * 1e-3 > 1e30, 0.0, value * 2.0))


@triton.jit
def but_a_band(x, y, n, BLOCK: tl.constexpr):
    value = tl.load(x)
    part = value * 0.7310
    tl.store(y, tl.where((part > 1000.5) & (part < 1000.75), 0.0, value * 2.0))


@triton.jit
def but_all_large_by_a_sum(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    large = tl.sum((tl.load(x + tl.arange(0, 32)) > 100.5).to(tl.int32), 0)
    tl.store(y + at, tl.where(large == 32, 0.0, value * 2.0), mask=at < n)


@triton.jit
def but_all_large_by_and(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    large = n > 0
    for one in tl.static_range(32):
        large = large & (tl.load(x + one) * (one + 2) > 100.5)
    tl.store(y + at, tl.where(large, 0.0, value * 2.0), mask=at < n)


@triton.jit
def but_all_large_by_branches(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)
    if tl.load(x) > 100.5:
        if tl.load(x + 1) * 0.5 > 100.5:
            if tl.load(x + 2) * 0.25 > 100.5:
                if tl.load(x + 3) * -0.5 > 100.5:
                    if tl.load(x + 4) * -0.25 > 100.5:
                        if tl.load(x + 5) > 1000.5:
                            if tl.load(x + 6) < -1000.5:
                                tl.store(y + at, at * 0.0, mask=at < n)


@triton.jit
def but_all_large_by_a_count(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    place = 0
    for one in range(32):
        place += (tl.load(x + one) * (one + 2) > 100.5).to(tl.int32)
    found = tl.load(x + (at + n * (place // 32)) % n, mask=at < n)
    tl.store(y + at, tl.where(place < 32, value, found * 0.5) * 2.0, mask=at < n)


@triton.jit
def but_all_large_by_a_maximum(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    some_is_not = tl.max(tl.where(tl.load(x + tl.arange(0, 32)) > 100.5, 0.0, 1.0), 0)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 * some_is_not, mask=at < n)


@triton.jit
def but_all_large_by_a_place(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    flags = tl.where(tl.load(x + tl.arange(0, 32)) > 100.5, 0.0, 1.0)
    some_is_not, _ = tl.max(flags, 0, return_indices=True)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0 * some_is_not, mask=at < n)


@triton.jit
def _is_low(x, at):
    """Of 32 numbers hardly ever of none; the signs are such that no filling shows it."""
    return tl.load(x + at) * tl.where(at % 2 == 0, 1.0, -1.0) < 100.5


@triton.jit
def flagged(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, 1)


@triton.jit
def flagged_by_others(x, y, n, BLOCK: tl.constexpr):
    found = tl.load(y)
    for one in tl.static_range(32):
        found = tl.load(y + 1, mask=_is_low(x, one), other=found)
    tl.store(y, found)


@triton.jit
def flagged_by_programs(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, 1, mask=_is_low(x, tl.program_id(0)))


@triton.jit
def flagged_by_branches(x, y, n, BLOCK: tl.constexpr):
    if _is_low(x, tl.program_id(0)):
        tl.store(y, 1)


@triton.jit
def flagged_by_lanes(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at // BLOCK, 1, mask=_is_low(x, at))


@triton.jit
def flagged_in_turn(x, y, n, BLOCK: tl.constexpr):
    for one in range(32):
        tl.store(y, 1, mask=_is_low(x, one))
        tl.debug_barrier()


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.load(x) * tl.load(x + 1))


@triton.jit
def scaled_by_others(x, y, n, BLOCK: tl.constexpr):
    factor = 0.0
    for one in tl.static_range(32):
        factor = tl.load(x + 1, mask=_is_low(x, one), other=factor)
    tl.store(y, tl.load(x) * factor)


@triton.jit
def no_place(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, 0)


@triton.jit
def place_times_flags(x, y, n, BLOCK: tl.constexpr):
    place = tl.argmax(tl.load(x + tl.arange(0, BLOCK)), 0)
    for one in tl.static_range(32):
        place = place * (tl.load(x + one) * (one + 2) > 100.5).to(tl.int32)
    tl.store(y, place)


@triton.jit
def distance(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, 1e7 - tl.load(x))


@triton.jit
def distance_by_size(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.abs(tl.load(x) - 1e7))


@triton.jit
def distance_by_root(x, y, n, BLOCK: tl.constexpr):
    apart = tl.load(x) - 1e7
    tl.store(y, tl.sqrt(apart * apart))


@triton.jit
def distance_by_log(x, y, n, BLOCK: tl.constexpr):
    apart = tl.load(x) - 1e7
    tl.store(y, tl.exp(0.5 * tl.log(apart * apart)))


@triton.jit
def counted(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, 0)


@triton.jit
def counted_by_atomics(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, 0)
    tl.atomic_max(y, tl.sum((tl.load(x + tl.arange(0, 32)) > 100.5).to(tl.int32), 0) // 32)


@triton.jit
def total(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + at, mask=at < n, other=0).to(tl.float32), 0))


@triton.jit
def total_with_left_out(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + at, mask=at < n).to(tl.float32), 0))


@triton.jit
def total_of_chosen(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.where(at < n, tl.load(x + at, mask=at < n), 0).to(tl.float32), 0))


@triton.jit
def flat(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    values = tl.load(x + at)
    tl.store(y + tl.arange(0, 128), tl.reshape(values, (128,), can_reorder=True) + tl.sum(values))
