"""Scatter, gather, index_put, stream compaction, histograms, permutations."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import below, ints, izeros, longs, rand, shuffled, zeros


@case((3,), x_ptr=rand(40), index_ptr=below(16, 40), out_ptr=zeros(16), n=40, BLOCK=16)
@triton.jit
def scatter_add(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    tl.atomic_add(out_ptr + index, tl.load(x_ptr + offs, mask=mask, other=0.0), mask=mask)


@case((3,), x_ptr=rand(40), index_ptr=below(16, 40), out_ptr=zeros(16), n=40, BLOCK=16)
@triton.jit
def scatter_add_without_atomics(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    before = tl.load(out_ptr + index, mask=mask, other=0.0)  # BUG: race argument=out_ptr
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + index, before + x, mask=mask)  # BUG: race argument=out_ptr


@case((3,), x_ptr=rand(40), index_ptr=ints([*range(15), 16] * 2 + [3] * 8), out_ptr=zeros(16), n=40, BLOCK=16)
@triton.jit
def scatter_add_index_too_large(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    tl.atomic_add(out_ptr + index, x, mask=mask)  # BUG: oob argument=out_ptr


@case((3,), x_ptr=rand(40), index_ptr=shuffled(40), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def permute_by_index(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask)
    tl.store(out_ptr + index, tl.load(x_ptr + offs, mask=mask), mask=mask)


@case((3,), x_ptr=rand(40), index_ptr=ints([2, *range(1, 40)]), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def permute_twice_within_one_program(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    tl.store(out_ptr + index, tl.load(x_ptr + offs, mask=mask), mask=mask)  # BUG: race argument=out_ptr


@case((3,), x_ptr=rand(40), index_ptr=ints([20, *range(1, 40)]), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def permute_by_no_permutation(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    tl.store(out_ptr + index, tl.load(x_ptr + offs, mask=mask), mask=mask)  # BUG: race argument=out_ptr


@case((4,), x_ptr=rand(9, 20), index_ptr=longs([3, 8, 0, 3]), out_ptr=zeros(4, 20), n=20, BLOCK=32)
@triton.jit
def gather_rows(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    index = tl.load(index_ptr + row)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + row * n + cols, tl.load(x_ptr + index * n + cols, mask=cols < n), mask=cols < n)


@case((4,), x_ptr=rand(9, 20), index_ptr=longs([3, 8, -9, 3]), out_ptr=zeros(4, 20), rows=9, n=20, BLOCK=32)
@triton.jit
def gather_rows_negative_wrapped(x_ptr, index_ptr, out_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    index = tl.load(index_ptr + row)
    index = tl.where(index < 0, index + rows, index)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + row * n + cols, tl.load(x_ptr + index * n + cols, mask=cols < n), mask=cols < n)


@case((4,), x_ptr=rand(9, 20), index_ptr=longs([3, 8, -9, 3]), out_ptr=zeros(4, 20), rows=9, n=20, BLOCK=32)
@triton.jit
def gather_rows_negative_left(x_ptr, index_ptr, out_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    index = tl.load(index_ptr + row)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index * n + cols, mask=(cols < n) & (index < rows))  # BUG: oob argument=x_ptr
    tl.store(out_ptr + row * n + cols, x, mask=(cols < n) & (index < rows))


@case((4,), x_ptr=rand(9, 20), index_ptr=longs([3, 8, 9, -1]), out_ptr=zeros(4, 20), rows=9, n=20, BLOCK=32)
@triton.jit
def gather_rows_checked(x_ptr, index_ptr, out_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    index = tl.load(index_ptr + row)
    cols = tl.arange(0, BLOCK)
    ok = (cols < n) & (index >= 0) & (index < rows)
    tl.store(out_ptr + row * n + cols, tl.load(x_ptr + index * n + cols, mask=ok, other=0.0), mask=cols < n)


@case((3,), x_ptr=rand(40), count_ptr=izeros(1), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def compact_positive(x_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=-1.0)
    keep = x > 0
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), 0))
    tl.store(out_ptr + start + place, x, mask=keep)


@case((3,), x_ptr=rand(40), count_ptr=izeros(1), out_ptr=zeros(10), n=40, BLOCK=16)
@triton.jit
def compact_into_too_little(x_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=-1.0)
    keep = x > 0
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), 0))
    tl.store(out_ptr + start + place, x, mask=keep)  # BUG: oob argument=out_ptr


@case((3,), x_ptr=rand(40).abs() + 1, count_ptr=izeros(1), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def compact_exclusive_sum_not_shifted(x_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=-1.0)
    keep = x > 0
    place = tl.cumsum(keep.to(tl.int32), 0)
    start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), 0))
    tl.store(out_ptr + start + place, x, mask=keep)  # BUG: oob argument=out_ptr


@case((3,), x_ptr=rand(40), base_ptr=ints([0, 8, 16]), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def compact_from_wrong_bases(x_ptr, base_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=-9.0)
    keep = (x > -9.0) & (offs % 4 != 0)
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    start = tl.load(base_ptr + pid)
    tl.store(out_ptr + start + place, x, mask=keep)  # BUG: race argument=out_ptr


@case((3,), x_ptr=below(8, 40), counts_ptr=izeros(8), n=40, BINS=8, BLOCK=16)
@triton.jit
def histogram_by_atomics(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=BINS - 1)
    counts = tl.histogram(x, BINS)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts)


@case((3,), x_ptr=below(8, 40), counts_ptr=izeros(8), n=40, BLOCK=16)
@triton.jit
def histogram_by_elements(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=mask, sem="relaxed")


@case((3,), x_ptr=below(8, 40), counts_ptr=izeros(7), n=40, BLOCK=16)
@triton.jit
def histogram_a_bin_short(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=mask)  # BUG: oob argument=counts_ptr


@case((3,), x_ptr=below(8, 40), counts_ptr=izeros(3, 8), n=40, BINS=8, BLOCK=16)
@triton.jit
def histogram_rows_per_program(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(counts_ptr + pid * BINS + tl.arange(0, BINS), tl.histogram(x, BINS))


@case(
    (2,), x_ptr=rand(6, 10), rows_ptr=ints([1, 4, 4, 0]), cols_ptr=ints([9, 0, 3, 10]), v_ptr=rand(4), n=10,
    B=2,
)  # fmt: skip
@triton.jit
def index_put_column_out_of_range(x_ptr, rows_ptr, cols_ptr, v_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    rows = tl.load(rows_ptr + offs)
    cols = tl.load(cols_ptr + offs)
    # Column 10 of row 0 is column 0 of row 1: inside the storage, and nobody else's element.
    tl.store(x_ptr + rows * n + cols, tl.load(v_ptr + offs))


@case(
    (2,), x_ptr=rand(6, 10), rows_ptr=ints([1, 4, 4, 5]), cols_ptr=ints([9, 0, 3, 10]), v_ptr=rand(4), n=10,
    B=2,
)  # fmt: skip
@triton.jit
def index_put_last_row_overrun(x_ptr, rows_ptr, cols_ptr, v_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    rows = tl.load(rows_ptr + offs)
    cols = tl.load(cols_ptr + offs)
    tl.store(x_ptr + rows * n + cols, tl.load(v_ptr + offs))  # BUG: oob argument=x_ptr


@case((3,), x_ptr=rand(40), source_ptr=shuffled(16), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def shuffle_within_blocks(x_ptr, source_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    source = tl.load(source_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr + offs, tl.gather(x, source, 0), mask=offs < n)
