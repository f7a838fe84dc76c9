"""Embedding lookups, bags, hashed tables and their gradients."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import ints, longs, rand, zeros

TOKENS = [4, 0, 9, 4, 2, 7]


@case((3, 2), token_ptr=longs(TOKENS), w_ptr=rand(10, 24), out_ptr=zeros(6, 24), n=6, d=24, BM=2, BD=16)
@triton.jit
def embedding_forward(token_ptr, w_ptr, out_ptr, n, d, BM: tl.constexpr, BD: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    token = tl.load(token_ptr + rm, mask=rm < n, other=0)
    mask = (rm < n)[:, None] & (rd < d)[None, :]
    w = tl.load(w_ptr + token[:, None] * d + rd[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + rm[:, None] * d + rd[None, :], w, mask=mask)


@case((3, 2), token_ptr=longs(TOKENS), w_ptr=rand(9, 24), out_ptr=zeros(6, 24), n=6, d=24, BM=2, BD=16)
@triton.jit
def embedding_token_outside_the_table(token_ptr, w_ptr, out_ptr, n, d, BM: tl.constexpr, BD: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    token = tl.load(token_ptr + rm, mask=rm < n, other=0)
    mask = (rm < n)[:, None] & (rd < d)[None, :]
    w = tl.load(w_ptr + token[:, None] * d + rd[None, :], mask=mask, other=0.0)  # BUG: oob argument=w_ptr
    tl.store(out_ptr + rm[:, None] * d + rd[None, :], w, mask=mask)


@case((3, 2), token_ptr=longs(TOKENS), w_ptr=rand(10, 24), out_ptr=zeros(6, 24), n=6, d=24, BM=2, BD=16)
@triton.jit
def embedding_last_column_block_unmasked(token_ptr, w_ptr, out_ptr, n, d, BM: tl.constexpr, BD: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.program_id(1) * BD + tl.arange(0, BD)
    token = tl.load(token_ptr + rm, mask=rm < n, other=0)
    w = tl.load(w_ptr + token[:, None] * d + rd[None, :], mask=(rm < n)[:, None])  # BUG: oob argument=w_ptr
    ok = (rm < n)[:, None] & (rd < d)[None, :]
    tl.store(out_ptr + rm[:, None] * d + rd[None, :], w, mask=ok)


@case((6,), token_ptr=longs(TOKENS), dy_ptr=rand(6, 24), dw_ptr=zeros(10, 24), d=24, BD=32)
@triton.jit
def embedding_gradient(token_ptr, dy_ptr, dw_ptr, d, BD: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row)
    rd = tl.arange(0, BD)
    dy = tl.load(dy_ptr + row * d + rd, mask=rd < d, other=0.0)
    tl.atomic_add(dw_ptr + token * d + rd, dy, mask=rd < d)


@case((6,), token_ptr=longs(TOKENS), dy_ptr=rand(6, 24), dw_ptr=zeros(10, 24), d=24, BD=32)
@triton.jit
def embedding_gradient_of_a_repeated_token(token_ptr, dy_ptr, dw_ptr, d, BD: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row)
    rd = tl.arange(0, BD)
    dy = tl.load(dy_ptr + row * d + rd, mask=rd < d, other=0.0)
    at = dw_ptr + token * d + rd
    dw = tl.load(at, mask=rd < d, other=0.0)  # BUG: race argument=dw_ptr
    tl.store(at, dw + dy, mask=rd < d)  # BUG: race argument=dw_ptr


@case((6,), token_ptr=longs([4, 0, 9, 3, 2, 7]), dy_ptr=rand(6, 24), dw_ptr=zeros(10, 24), d=24, BD=32)
@triton.jit
def embedding_gradient_tokens_all_differ(token_ptr, dy_ptr, dw_ptr, d, BD: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row)
    rd = tl.arange(0, BD)
    dy = tl.load(dy_ptr + row * d + rd, mask=rd < d, other=0.0)
    at = dw_ptr + token * d + rd
    tl.store(at, tl.load(at, mask=rd < d, other=0.0) + dy, mask=rd < d)


BAGS = [0, 2, 2, 6]


@case((3,), token_ptr=longs(TOKENS), offset_ptr=ints(BAGS), w_ptr=rand(10, 16), out_ptr=zeros(3, 16), D=16)
@triton.jit
def embedding_bag_mean(token_ptr, offset_ptr, w_ptr, out_ptr, D: tl.constexpr):
    bag = tl.program_id(0)
    first = tl.load(offset_ptr + bag)
    last = tl.load(offset_ptr + bag + 1)
    rd = tl.arange(0, D)
    acc = tl.zeros((D,), tl.float32)
    for i in range(first, last):
        acc += tl.load(w_ptr + tl.load(token_ptr + i) * D + rd)
    tl.store(out_ptr + bag * D + rd, acc / tl.maximum(last - first, 1))


@case(
    (3,), token_ptr=longs(TOKENS), offset_ptr=ints(BAGS[:3]), w_ptr=rand(10, 16), out_ptr=zeros(3, 16), D=16
)
@triton.jit
def embedding_bag_offsets_without_the_end(token_ptr, offset_ptr, w_ptr, out_ptr, D: tl.constexpr):
    bag = tl.program_id(0)
    first = tl.load(offset_ptr + bag)
    last = tl.load(offset_ptr + bag + 1)  # BUG: oob argument=offset_ptr
    rd = tl.arange(0, D)
    acc = tl.zeros((D,), tl.float32)
    for i in range(first, last):
        acc += tl.load(w_ptr + tl.load(token_ptr + i) * D + rd)
    tl.store(out_ptr + bag * D + rd, acc)


@case((6,), token_ptr=ints(TOKENS), w_ptr=rand(8, 16), out_ptr=zeros(6, 16), D=16)
@triton.jit
def hashed_embedding_unsigned(token_ptr, w_ptr, out_ptr, D: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row).to(tl.uint32)
    slot = (token * 2654435761) % 8
    rd = tl.arange(0, D)
    tl.store(out_ptr + row * D + rd, tl.load(w_ptr + slot * D + rd))


@case((6,), token_ptr=ints([t + 1 for t in TOKENS]), w_ptr=rand(8, 16), out_ptr=zeros(6, 16), D=16)
@triton.jit
def hashed_embedding_signed_remainder(token_ptr, w_ptr, out_ptr, D: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row)
    hashed = (token ^ (token << 13)) ^ (-2128831035)
    slot = hashed % 8
    rd = tl.arange(0, D)
    tl.store(out_ptr + row * D + rd, tl.load(w_ptr + slot * D + rd))  # BUG: oob argument=w_ptr


@case((4,), token_ptr=ints([1, 2, 9, 4]), w_ptr=rand(5, 16), out_ptr=zeros(4, 16), first=0, last=5, D=16)
@triton.jit
def vocabulary_parallel_lookup(token_ptr, w_ptr, out_ptr, first, last, D: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row)
    rd = tl.arange(0, D)
    mine = (token >= first) & (token < last)
    w = tl.load(w_ptr + (token - first) * D + rd, mask=(rd < D) & mine, other=0.0)
    tl.store(out_ptr + row * D + rd, w)


@case((4,), token_ptr=ints([6, 2, 9, 4]), w_ptr=rand(5, 16), out_ptr=zeros(4, 16), first=5, last=10, D=16)
@triton.jit
def vocabulary_parallel_lower_bound_unchecked(token_ptr, w_ptr, out_ptr, first, last, D: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(token_ptr + row)
    rd = tl.arange(0, D)
    mine = token < last
    w = tl.load(w_ptr + (token - first) * D + rd, mask=(rd < D) & mine, other=0.0)  # BUG: oob argument=w_ptr
    tl.store(out_ptr + row * D + rd, w)


@case((2,), position_ptr=ints([0, 3, 5, 9], torch.int64), w_ptr=rand(10, 8), x_ptr=rand(4, 8), B=2, D=8)
@triton.jit
def position_embedding_added_in_place(position_ptr, w_ptr, x_ptr, B: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    rd = tl.arange(0, D)
    position = tl.load(position_ptr + rows)
    w = tl.load(w_ptr + position[:, None] * D + rd[None, :])
    at = x_ptr + rows[:, None] * D + rd[None, :]
    tl.store(at, tl.load(at) + w)
