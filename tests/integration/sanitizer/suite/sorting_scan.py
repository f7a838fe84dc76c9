"""Bitonic sorting, top-k, argmax in addresses, scans within and over blocks, merges by binary search."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, izeros, rand, shuffled, zeros


@case((2,), x_ptr=rand(2, 30), out_ptr=zeros(2, 30), n=30, BLOCK=32)
@triton.jit
def sort_rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=float("inf"))
    tl.store(out_ptr + row * n + cols, tl.sort(x), mask=cols < n)


@case((2,), heavy=True, x_ptr=rand(2, 30), out_ptr=zeros(2, 30), n=30, BLOCK=32)
@triton.jit
def sort_rows_padding_sorts_first(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    # Undefined lanes are sorted in among the others.
    tl.store(out_ptr + row * n + cols, tl.sort(x), mask=cols < n)  # BUG: uninit argument=out_ptr


@case((2,), x_ptr=ints(range(64)), STAGE=3, BLOCK=16)
@triton.jit
def bitonic_step_pairs(x_ptr, STAGE: tl.constexpr, BLOCK: tl.constexpr):
    half = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    distance = 1 << STAGE
    low = half // distance * (2 * distance) + half % distance
    a = tl.load(x_ptr + low)
    b = tl.load(x_ptr + low + distance)
    tl.store(x_ptr + low, tl.minimum(a, b))
    tl.store(x_ptr + low + distance, tl.maximum(a, b))


@case((2,), x_ptr=shuffled(32), STAGE=4, BLOCK=16)
@triton.jit
def bitonic_step_by_partner(x_ptr, STAGE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    partner = at ^ (1 << STAGE)
    mine = tl.load(x_ptr + at)
    theirs = tl.load(x_ptr + partner)  # BUG: race argument=x_ptr
    low = (at & (1 << STAGE)) == 0
    # BUG: race argument=x_ptr
    tl.store(x_ptr + at, tl.where(low, tl.minimum(mine, theirs), tl.maximum(mine, theirs)))


@case((2,), x_ptr=shuffled(32), STAGE=5, BLOCK=16)
@triton.jit
def bitonic_step_a_stage_too_many(x_ptr, STAGE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.load(x_ptr + at)
    theirs = tl.load(x_ptr + (at ^ (1 << STAGE)))  # BUG: oob argument=x_ptr
    tl.store(x_ptr + at, tl.minimum(mine, theirs))


@case((3,), x_ptr=rand(3, 20), values_ptr=rand(3, 20), out_ptr=zeros(3), n=20, BLOCK=32)
@triton.jit
def select_by_argmax(x_ptr, values_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    best = tl.argmax(x, 0)
    tl.store(out_ptr + row, tl.load(values_ptr + row * n + best))


@case((3,), x_ptr=-rand(3, 20).abs() - 1, values_ptr=rand(3, 20), out_ptr=zeros(3), n=20, BLOCK=32)
@triton.jit
def select_by_argmax_of_padding(x_ptr, values_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    # All values are negative: a padding of zero wins.
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    best = tl.argmax(x, 0)
    tl.store(out_ptr + row, tl.load(values_ptr + row * n + best + n))  # BUG: oob argument=values_ptr


@case((3,), x_ptr=rand(3, 20), index_ptr=izeros(3, 4), n=20, K=4, BLOCK=32)
@triton.jit
def top_k_by_repeated_argmax(x_ptr, index_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    for i in range(K):
        best = tl.argmax(x, 0)
        tl.store(index_ptr + row * K + i, best)
        x = tl.where(cols == best, -float("inf"), x)


@case((3,), x_ptr=rand(3, 20), index_ptr=izeros(3, 4), n=20, K=4, BLOCK=32)
@triton.jit
def top_k_one_too_many(x_ptr, index_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    for i in range(K + 1):
        best = tl.argmax(x, 0)
        # BUG: oob argument=index_ptr; race argument=index_ptr
        tl.store(index_ptr + row * K + i, best + row * 100)
        x = tl.where(cols == best, -float("inf"), x)


@case((3,), x_ptr=rand(3, 20), out_ptr=zeros(3, 20), n=20, BLOCK=32)
@triton.jit
def cumulative_sum_rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    # What is undefined lies behind every lane that is stored.
    total = tl.cumsum(tl.where(cols < n, x, 0.0), 0)
    tl.store(out_ptr + row * n + cols, total, mask=cols < n)


@case((3,), x_ptr=rand(48), sums_ptr=zeros(3), out_ptr=zeros(48), BLOCK=16)
@triton.jit
def scan_first_pass(x_ptr, sums_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, tl.cumsum(x, 0))
    tl.store(sums_ptr + pid, tl.sum(x, 0))


@case((3,), sums_ptr=rand(3), out_ptr=zeros(48), BLOCK=16)
@triton.jit
def scan_second_pass(sums_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    before = 0.0
    for i in range(pid):
        before += tl.load(sums_ptr + i)
    tl.store(out_ptr + offs, tl.load(out_ptr + offs) + before)


@case((3,), x_ptr=rand(48), sums_ptr=zeros(3), out_ptr=zeros(48), BLOCK=16)
@triton.jit
def scan_in_one_pass_without_waiting(x_ptr, sums_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(sums_ptr + pid, tl.sum(x, 0))  # BUG: race argument=sums_ptr
    before = 0.0
    for i in range(pid):
        before += tl.load(sums_ptr + i)  # BUG: race argument=sums_ptr
    tl.store(out_ptr + offs, tl.cumsum(x, 0) + before)


@case((3,), x_ptr=rand(48), flags_ptr=izeros(3), sums_ptr=zeros(3), out_ptr=zeros(48), BLOCK=16)
@triton.jit
def scan_decoupled_look_back(x_ptr, flags_ptr, sums_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    before = 0.0
    if pid > 0:
        while tl.atomic_add(flags_ptr + pid - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums_ptr + pid - 1)
    tl.store(sums_ptr + pid, before + tl.sum(x, 0))
    tl.debug_barrier()
    tl.atomic_xchg(flags_ptr + pid, 1, sem="release")
    tl.store(out_ptr + offs, tl.cumsum(x, 0) + before)


@case(
    (3,), sorted_ptr=ints(range(0, 80, 2)), keys_ptr=ints([*range(-3, 80, 4), 78, 79, 500]),
    out_ptr=izeros(24), n=40, keys=24, BLOCK=8,
)  # fmt: skip
@triton.jit
def binary_search(sorted_ptr, keys_ptr, out_ptr, n, keys, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + offs, mask=offs < keys, other=0)
    low = tl.zeros((BLOCK,), tl.int32)
    high = tl.zeros((BLOCK,), tl.int32) + n
    for _ in range(6):
        middle = (low + high) // 2
        ok = low < high
        value = tl.load(sorted_ptr + middle, mask=ok, other=0)
        right = ok & (value < key)
        low = tl.where(right, middle + 1, low)
        high = tl.where(ok & (value >= key), middle, high)
    tl.store(out_ptr + offs, low, mask=offs < keys)


@case(
    (3,), sorted_ptr=ints(range(0, 80, 2)), keys_ptr=ints([*range(-3, 80, 4), 78, 79, 500]),
    out_ptr=izeros(24), n=40, keys=24, BLOCK=8,
)  # fmt: skip
@triton.jit
def binary_search_reads_at_the_end(sorted_ptr, keys_ptr, out_ptr, n, keys, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + offs, mask=offs < keys, other=0)
    low = tl.zeros((BLOCK,), tl.int32)
    high = tl.zeros((BLOCK,), tl.int32) + n
    for _ in range(7):
        middle = (low + high) // 2
        value = tl.load(sorted_ptr + middle)  # BUG: oob argument=sorted_ptr
        low = tl.where(value < key, middle + 1, low)
        high = tl.where(value >= key, middle, high)
    tl.store(out_ptr + offs, low, mask=offs < keys)


@triton.jit
def running_maximum(a, b):
    return tl.maximum(a, b)


@case((3,), x_ptr=rand(3, 20), out_ptr=zeros(3, 20), n=20, BLOCK=32)
@triton.jit
def running_maximum_reversed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    top = tl.associative_scan(x, 0, running_maximum, reverse=True)
    tl.store(out_ptr + row * n + cols, top, mask=cols < n)
