"""Paged caches with page tables, ragged batches with cu_seqlens, jagged tensors."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, longs, rand, zeros

# 6 pages of 8 slots, 16 numbers each; two sequences of 20 and 11 tokens.
TABLE = [[4, 0, 2], [5, 1, 0]]


def cache():
    return {
        "q_ptr": rand(2, 16),
        "pages_ptr": rand(6, 8, 16),
        "table_ptr": ints(TABLE),
        "lengths_ptr": ints([20, 11]),
    }


@case((2,), **cache(), out_ptr=zeros(2, 24), width=3, PAGE=8, D=16)
@triton.jit
def paged_scores(
    q_ptr, pages_ptr, table_ptr, lengths_ptr, out_ptr, width, PAGE: tl.constexpr, D: tl.constexpr
):
    seq = tl.program_id(0)
    length = tl.load(lengths_ptr + seq)
    rd = tl.arange(0, D)
    slot = tl.arange(0, PAGE)
    q = tl.load(q_ptr + seq * D + rd)
    for i in range(tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + seq * width + i).to(tl.int64)
        k = tl.load(pages_ptr + page * PAGE * D + slot[:, None] * D + rd[None, :])
        token = i * PAGE + slot
        tl.store(out_ptr + seq * width * PAGE + token, tl.sum(k * q[None, :], 1), mask=token < length)


@case((2,), **cache(), out_ptr=zeros(2, 24), width=3, PAGE=8, D=16)
@triton.jit
def paged_scores_page_scaled_twice(
    q_ptr, pages_ptr, table_ptr, lengths_ptr, out_ptr, width, PAGE: tl.constexpr, D: tl.constexpr
):
    seq = tl.program_id(0)
    length = tl.load(lengths_ptr + seq)
    rd = tl.arange(0, D)
    slot = tl.arange(0, PAGE)
    q = tl.load(q_ptr + seq * D + rd)
    for i in range(tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + seq * width + i)
        # BUG: oob argument=pages_ptr
        k = tl.load(pages_ptr + (page * PAGE + slot)[:, None] * PAGE * D + rd[None, :])
        token = i * PAGE + slot
        tl.store(out_ptr + seq * width * PAGE + token, tl.sum(k * q[None, :], 1), mask=token < length)


@case((2,), **cache(), out_ptr=zeros(2, 24), width=3, PAGE=8, D=16)
@triton.jit
def paged_table_read_one_page_too_far(
    q_ptr, pages_ptr, table_ptr, lengths_ptr, out_ptr, width, PAGE: tl.constexpr, D: tl.constexpr
):
    seq = tl.program_id(0)
    length = tl.load(lengths_ptr + seq)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + seq * D + rd)
    total = 0.0
    for i in range(width + 1):
        page = tl.load(table_ptr + seq * width + i)  # BUG: oob argument=table_ptr
        k = tl.load(pages_ptr + page * PAGE * D + rd)
        total += tl.sum(k * q, 0)
    tl.store(out_ptr + seq * width * PAGE, total + length)


@case((3,), k_ptr=rand(3, 16), pages_ptr=zeros(6, 8, 16), slots_ptr=longs([7, 40, 23]), D=16)
@triton.jit
def cache_write_by_slot(k_ptr, pages_ptr, slots_ptr, D: tl.constexpr):
    token = tl.program_id(0)
    slot = tl.load(slots_ptr + token)
    rd = tl.arange(0, D)
    tl.store(pages_ptr + slot * D + rd, tl.load(k_ptr + token * D + rd))


@case((3,), k_ptr=rand(3, 16), pages_ptr=zeros(6, 8, 16), slots_ptr=longs([7, -1, 23]), D=16)
@triton.jit
def cache_write_padding_slot_skipped(k_ptr, pages_ptr, slots_ptr, D: tl.constexpr):
    token = tl.program_id(0)
    slot = tl.load(slots_ptr + token)
    if slot < 0:
        return
    rd = tl.arange(0, D)
    tl.store(pages_ptr + slot * D + rd, tl.load(k_ptr + token * D + rd))


@case((3,), k_ptr=rand(3, 16), pages_ptr=zeros(6, 8, 16), slots_ptr=longs([7, -1, 23]), D=16)
@triton.jit
def cache_write_padding_slot_written(k_ptr, pages_ptr, slots_ptr, D: tl.constexpr):
    token = tl.program_id(0)
    slot = tl.load(slots_ptr + token)
    rd = tl.arange(0, D)
    tl.store(pages_ptr + slot * D + rd, tl.load(k_ptr + token * D + rd))  # BUG: oob argument=pages_ptr


@case((3,), k_ptr=rand(3, 16), pages_ptr=zeros(6, 8, 16), slots_ptr=longs([7, 23, 23]), D=16)
@triton.jit
def cache_write_slot_given_twice(k_ptr, pages_ptr, slots_ptr, D: tl.constexpr):
    token = tl.program_id(0)
    slot = tl.load(slots_ptr + token)
    rd = tl.arange(0, D)
    tl.store(pages_ptr + slot * D + rd, tl.load(k_ptr + token * D + rd))  # BUG: race argument=pages_ptr


CU = [0, 5, 5, 18, 30]


@case((2, 4), x_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(30, 8), BM=8, D=8)
@triton.jit
def varlen_scale_by_length(x_ptr, cu_ptr, out_ptr, BM: tl.constexpr, D: tl.constexpr):
    seq = tl.program_id(1)
    start = tl.load(cu_ptr + seq)
    length = tl.load(cu_ptr + seq + 1) - start
    if tl.program_id(0) * BM >= length:
        return
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    at = (start + rm)[:, None] * D + tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + at, mask=(rm < length)[:, None], other=0)
    tl.store(out_ptr + at, x / length, mask=(rm < length)[:, None])


@case((2, 4), x_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(30, 8), BM=8, D=8)
@triton.jit
def varlen_row_mask_forgotten(x_ptr, cu_ptr, out_ptr, BM: tl.constexpr, D: tl.constexpr):
    seq = tl.program_id(1)
    start = tl.load(cu_ptr + seq)
    length = tl.load(cu_ptr + seq + 1) - start
    if tl.program_id(0) * BM >= length:
        return
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    at = (start + rm)[:, None] * D + tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + at, mask=(rm < length)[:, None], other=0)
    # A sequence's last block runs into the next sequence, and the last one past the end.
    # BUG: oob argument=out_ptr; race argument=out_ptr
    tl.store(out_ptr + at, x / length)


@case((2, 5), x_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(30, 8), BM=8, D=8)
@triton.jit
def varlen_grid_has_a_sequence_too_many(x_ptr, cu_ptr, out_ptr, BM: tl.constexpr, D: tl.constexpr):
    seq = tl.program_id(1)
    start = tl.load(cu_ptr + seq)
    length = tl.load(cu_ptr + seq + 1) - start  # BUG: oob argument=cu_ptr
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    at = (start + rm)[:, None] * D + tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + at, mask=(rm < length)[:, None], other=0)
    tl.store(out_ptr + at, x, mask=(rm < length)[:, None])


@case(
    (2, 4), q_ptr=half(30, 16), k_ptr=half(30, 16), v_ptr=half(30, 16), out_ptr=half(30, 16),
    cu_ptr=ints(CU), BM=16, BN=16, D=16,
)  # fmt: skip
@triton.jit
def varlen_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, cu_ptr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    seq = tl.program_id(1)
    first = tl.load(cu_ptr + seq)
    last = tl.load(cu_ptr + seq + 1)
    rm = first + tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + rm[:, None] * D + rd[None, :], mask=rm[:, None] < last, other=0)
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(first, last, BN):
        rn = start + tl.arange(0, BN)
        k = tl.load(k_ptr + rn[None, :] * D + rd[:, None], mask=rn[None, :] < last, other=0)
        v = tl.load(v_ptr + rn[:, None] * D + rd[None, :], mask=rn[:, None] < last, other=0)
        p = tl.where(rn[None, :] < last, tl.exp(tl.dot(q, k) * 0.25), 0.0)
        total += tl.sum(p, 1)
        acc += tl.dot(p.to(v.dtype), v)
    tl.store(out_ptr + rm[:, None] * D + rd[None, :], acc / total[:, None], mask=rm[:, None] < last)


@case(
    (2, 4), q_ptr=half(30, 16), k_ptr=half(30, 16), out_ptr=half(30, 16), cu_ptr=ints(CU), BM=16, BN=16, D=16
)
@triton.jit
def varlen_attention_key_mask_by_length(
    q_ptr, k_ptr, out_ptr, cu_ptr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    seq = tl.program_id(1)
    first = tl.load(cu_ptr + seq)
    last = tl.load(cu_ptr + seq + 1)
    rm = first + tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + rm[:, None] * D + rd[None, :], mask=rm[:, None] < last, other=0)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, last - first, BN):
        rn = start + tl.arange(0, BN)
        at = k_ptr + (first + rn)[:, None] * D + rd[None, :]
        k = tl.load(at, mask=rn[:, None] < last, other=0)  # BUG: oob argument=k_ptr
        acc += tl.dot(tl.dot(q, tl.trans(k)).to(k.dtype), k)
    tl.store(out_ptr + rm[:, None] * D + rd[None, :], acc, mask=rm[:, None] < last)


@case((4,), values_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(4, 8), D=8)
@triton.jit
def jagged_mean(values_ptr, cu_ptr, out_ptr, D: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(cu_ptr + row)
    last = tl.load(cu_ptr + row + 1)
    rd = tl.arange(0, D)
    acc = tl.zeros((D,), tl.float32)
    for i in range(first, last):
        acc += tl.load(values_ptr + i * D + rd)
    tl.store(out_ptr + row * D + rd, acc / tl.maximum(last - first, 1))


@case((4,), values_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(4, 8), D=8)
@triton.jit
def jagged_mean_last_included(values_ptr, cu_ptr, out_ptr, D: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(cu_ptr + row)
    last = tl.load(cu_ptr + row + 1)
    rd = tl.arange(0, D)
    acc = tl.zeros((D,), tl.float32)
    for i in range(first, last + 1):
        acc += tl.load(values_ptr + i * D + rd)  # BUG: oob argument=values_ptr
    tl.store(out_ptr + row * D + rd, acc / tl.maximum(last - first, 1))


@case((4,), values_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(4, 16, 8), limit=16, D=8)
@triton.jit
def jagged_to_padded(values_ptr, cu_ptr, out_ptr, limit, D: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(cu_ptr + row)
    length = tl.load(cu_ptr + row + 1) - first
    rd = tl.arange(0, D)
    for i in range(limit):
        x = tl.load(values_ptr + (first + i) * D + rd, mask=(rd < D) & (i < length), other=0.0)
        tl.store(out_ptr + (row * limit + i) * D + rd, x)


@case((4,), values_ptr=rand(30, 8), cu_ptr=ints(CU), out_ptr=zeros(4, 10, 8), limit=10, D=8)
@triton.jit
def jagged_to_padded_longer_than_the_limit(values_ptr, cu_ptr, out_ptr, limit, D: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(cu_ptr + row)
    length = tl.load(cu_ptr + row + 1) - first
    rd = tl.arange(0, D)
    for i in range(length):
        x = tl.load(values_ptr + (first + i) * D + rd)
        # BUG: oob argument=out_ptr; race argument=out_ptr
        tl.store(out_ptr + (row * limit + i) * D + rd, x)
