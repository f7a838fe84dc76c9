"""Sums, maxima, softmax and two-stage reductions over rows, columns and whole tensors."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import izeros, rand, zeros


@case((5,), x_ptr=rand(5, 24), out_ptr=zeros(5, 24), stride=24, n=24, BLOCK=32)
@triton.jit
def softmax_one_block(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + cols, e / tl.sum(e, 0), mask=cols < n)


@case((5,), x_ptr=rand(5, 24), out_ptr=zeros(5, 24), stride=24, n=24, BLOCK=32)
@triton.jit
def softmax_mask_on_the_load_only(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0)) * (row + 1)
    # Runs into the next row, and past the last one.
    # BUG: oob argument=out_ptr; race argument=out_ptr
    tl.store(out_ptr + row * stride + cols, e / tl.sum(e, 0))


@case((3,), x_ptr=rand(5, 24), out_ptr=zeros(5, 24), rows=5, stride=24, n=24, BLOCK=32)
@triton.jit
def softmax_persistent_rows(x_ptr, out_ptr, rows, stride, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=-float("inf"))
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * stride + cols, e / tl.sum(e, 0), mask=cols < n)


@case((3,), x_ptr=rand(5, 24), out_ptr=zeros(5, 24), rows=5, stride=24, n=24, BLOCK=32)
@triton.jit
def softmax_persistent_one_row_too_many(x_ptr, out_ptr, rows, stride, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows + 1, tl.num_programs(0)):
        at = row * stride + cols
        x = tl.load(x_ptr + at, mask=cols < n, other=-float("inf"))  # BUG: oob argument=x_ptr
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + at, e / tl.sum(e, 0), mask=cols < n)  # BUG: oob argument=out_ptr


@case((4,), heavy=True, x_ptr=rand(4, 70), out_ptr=zeros(4, 70), n=70, BLOCK=16)
@triton.jit
def softmax_online_two_passes(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * n
    top = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), 0)
        top = new_top
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n)
        tl.store(out_ptr + row * n + cols, tl.exp(x - top) / total, mask=cols < n)


@case((4,), x_ptr=rand(4, 70), out_ptr=zeros(4, 70), n=70, BLOCK=16)
@triton.jit
def softmax_second_pass_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * n
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n, other=-float("inf"))
        total += tl.sum(tl.exp(x), 0)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols)  # BUG: oob argument=x_ptr
        tl.store(out_ptr + row * n + cols, tl.exp(x) / total, mask=cols < n)


@case((3,), x_ptr=rand(20, 40), out_ptr=zeros(40), m=20, n=40, BM=8, BN=16)
@triton.jit
def column_sums(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, m, BM):
        rows = start + tl.arange(0, BM)
        mask = (rows[:, None] < m) & (cols[None, :] < n)
        acc += tl.load(x_ptr + rows[:, None] * n + cols[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + cols, tl.sum(acc, 0), mask=cols < n)


@case((3,), x_ptr=rand(20, 40), out_ptr=zeros(40), m=20, n=40, BM=8, BN=16)
@triton.jit
def column_sums_tail_rows_unmasked(x_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, m, BM):
        rows = start + tl.arange(0, BM)
        at = x_ptr + rows[:, None] * n + cols[None, :]
        acc += tl.load(at, mask=cols[None, :] < n, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + cols, tl.sum(acc, 0), mask=cols < n)


@case((4,), x_ptr=rand(100), partial_ptr=zeros(4), n=100, BLOCK=32)
@triton.jit
def partial_sums(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(partial_ptr + pid, tl.sum(x, 0))


@case((4,), x_ptr=rand(100), out_ptr=zeros(1), n=100, BLOCK=32)
@triton.jit
def total_without_an_atomic(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    before = tl.load(out_ptr)  # BUG: race argument=out_ptr
    tl.store(out_ptr, before + tl.sum(x, 0))  # BUG: race argument=out_ptr


@case((4,), x_ptr=rand(100), out_ptr=zeros(1), n=100, BLOCK=32)
@triton.jit
def total_by_atomic_add(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, 0))


@case((4,), partial_ptr=rand(4), out_ptr=zeros(1), count=4, BLOCK=8)
@triton.jit
def last_stage_by_first_program(partial_ptr, out_ptr, count, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        offs = tl.arange(0, BLOCK)
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + offs, mask=offs < count, other=0.0), 0))


@case((4,), x_ptr=rand(100), partial_ptr=zeros(4), out_ptr=zeros(1), n=100, BLOCK=32)
@triton.jit
def both_stages_without_a_barrier(x_ptr, partial_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(partial_ptr + pid, tl.sum(x, 0))  # BUG: race argument=partial_ptr
    if pid == 0:
        all_of_them = tl.load(partial_ptr + tl.arange(0, 4))  # BUG: race argument=partial_ptr
        tl.store(out_ptr, tl.sum(all_of_them, 0))


@case(
    (4,), x_ptr=rand(100), partial_ptr=zeros(4), count_ptr=izeros(1), out_ptr=zeros(1), n=100, BLOCK=32,
)  # fmt: skip
@triton.jit
def last_arrival_reduces(x_ptr, partial_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(partial_ptr + pid, tl.sum(x, 0))
    tl.debug_barrier()
    arrived = tl.atomic_add(count_ptr, 1, sem="acq_rel")
    if arrived == tl.num_programs(0) - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, 4)), 0))


@case((2, 3), x_ptr=rand(2, 3, 20), best_ptr=izeros(2, 3), n=20, BLOCK=32)
@triton.jit
def argmax_rows(x_ptr, best_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    tl.store(best_ptr + row, tl.argmax(x, 0))


@case((2, 3), x_ptr=rand(2, 3, 20), out_ptr=zeros(2, 3), n=20, BLOCK=32)
@triton.jit
def row_index_from_swapped_grid(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 4 + tl.program_id(1)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + row, tl.max(x, 0))  # BUG: oob argument=out_ptr


@case((3,), x_ptr=rand(3, 40), mean_ptr=zeros(3), var_ptr=zeros(3), n=40, BLOCK=16)
@triton.jit
def welford_rows(x_ptr, mean_ptr, var_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = 0.0
    m2 = 0.0
    count = 0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
        here = tl.minimum(BLOCK, n - start)
        local_mean = tl.sum(x, 0) / here
        delta = local_mean - mean
        centred = tl.where(mask, x - local_mean, 0.0)
        m2 += tl.sum(centred * centred, 0) + delta * delta * count * here / (count + here)
        count += here
        mean += delta * here / count
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / n)
