"""Strided, transposed, expanded, overlapping and offset views; pointer tables and casts; freshness."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import longs, rand, zeros


@case((3,), "transposed", x_ptr=rand(16, 24).t(), out_ptr=zeros(24, 16), sm=1, sn=24, m=24, n=16, BM=8, BN=16)
@case(
    (3,), "expanded", x_ptr=rand(1, 16).expand(24, 16), out_ptr=zeros(24, 16), sm=0, sn=1, m=24, n=16, BM=8,
    BN=16,
)  # fmt: skip
@case(
    (3,), "columns", x_ptr=rand(24, 40)[:, 24:], out_ptr=zeros(24, 16), sm=40, sn=1, m=24, n=16, BM=8, BN=16
)
@case(
    (3,), "columns of the view", bounds="view", x_ptr=rand(24, 40)[:, 24:], out_ptr=zeros(24, 16), sm=40,
    sn=1, m=24, n=16, BM=8, BN=16,
)  # fmt: skip
@triton.jit
def copy_by_strides(x_ptr, out_ptr, sm, sn, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    mask = (rm[:, None] < m) & (rn[None, :] < n)
    x = tl.load(x_ptr + rm[:, None] * sm + rn[None, :] * sn, mask=mask)
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], x, mask=mask)


@case((3,), x_ptr=rand(16, 24).t(), out_ptr=zeros(24, 16), m=24, n=16, sm=24, BM=8, BN=16)
@triton.jit
def transposed_view_taken_as_contiguous(x_ptr, out_ptr, m, n, sm, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    x = tl.load(x_ptr + rm[:, None] * sm + rn[None, :])  # BUG: oob argument=x_ptr
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], x)


@case((3,), x_ptr=rand(1, 16).expand(24, 16), out_ptr=zeros(24, 16), n=16, BM=8, BN=16)
@triton.jit
def expanded_view_taken_as_contiguous(x_ptr, out_ptr, n, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    at = rm[:, None] * n + rn[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at))  # BUG: oob argument=x_ptr


@case((3,), x_ptr=zeros(1, 16).expand(24, 16), y_ptr=rand(24, 16), n=16, BM=8, BN=16)
@triton.jit
def store_into_an_expanded_view(x_ptr, y_ptr, n, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    y = tl.load(y_ptr + rm[:, None] * n + rn[None, :])
    tl.store(x_ptr + rm[:, None] * 0 + rn[None, :], y)  # BUG: race argument=x_ptr


@case((3,), "storage", x_ptr=rand(24, 40)[:, :16], out_ptr=zeros(24, 16), sm=40, n=16, BM=8, BN=32)
@case(
    (3,), "view", bounds="view", x_ptr=rand(24, 40)[:, :16], out_ptr=zeros(24, 16), sm=40, n=16, BM=8, BN=32
)
@triton.jit
def reads_beyond_the_columns_of_a_view(x_ptr, out_ptr, sm, n, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    x = tl.load(x_ptr + rm[:, None] * sm + rn[None, :])  # BUG(view): oob argument=x_ptr
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], x, mask=rn[None, :] < n)


@case((2,), x_ptr=rand(64)[40:], out_ptr=zeros(24), n=24, BLOCK=16)
@triton.jit
def offset_view_tail(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x, mask=offs < n)


@case((2,), x_ptr=rand(64)[40:], out_ptr=zeros(24), n=24, BLOCK=16)
@triton.jit
def offset_view_negative_offsets_in_its_storage(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs - 40, mask=offs < n), mask=offs < n)


_both = rand(80)


@case((2,), x_ptr=_both[:32], out_ptr=_both[32:64], BLOCK=16)
@triton.jit
def halves_of_one_storage(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) * 2)


@case((2,), x_ptr=_both[:32], out_ptr=_both[16:48], BLOCK=16)
@triton.jit
def overlapping_views_of_one_storage(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)  # BUG: race argument=x_ptr
    tl.store(out_ptr + offs, x * 2)  # BUG: race argument=out_ptr


_table = [rand(20), rand(20), rand(20)]


@case(
    (3,), table_ptr=longs([t.data_ptr() for t in _table]), a_ptr=_table[0], b_ptr=_table[1],
    c_ptr=_table[2], out_ptr=zeros(3), n=20, BLOCK=32,
)  # fmt: skip
@triton.jit
def pointers_from_a_table(table_ptr, a_ptr, b_ptr, c_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr + pid).to(tl.pointer_type(tl.float32))
    first = tl.load(a_ptr) + tl.load(b_ptr) + tl.load(c_ptr)
    total = tl.sum(tl.load(x_ptr + cols, mask=cols < n, other=0.0), 0)
    tl.store(out_ptr + pid, total + first)


@case((2,), x_ptr=rand(40), y_ptr=rand(40), out_ptr=zeros(2, 16), BLOCK=16)
@triton.jit
def pointer_chosen_by_program(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    source = x_ptr
    if pid == 1:
        source = y_ptr + 24
    tl.store(out_ptr + pid * BLOCK + cols, tl.load(source + cols))


@case((2,), x_ptr=rand(40), y_ptr=rand(40), out_ptr=zeros(2, 16), BLOCK=16)
@triton.jit
def pointer_chosen_by_program_one_is_short(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    source = x_ptr
    if pid == 1:
        source = y_ptr + 25
    tl.store(out_ptr + pid * BLOCK + cols, tl.load(source + cols))  # BUG: oob argument=y_ptr


@case((2,), x_ptr=torch.arange(64, dtype=torch.uint8), out_ptr=zeros(16, dtype=torch.int32), BLOCK=8)
@triton.jit
def bytes_read_as_words(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    words = x_ptr.to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + offs, tl.load(words + offs))


@case((2,), x_ptr=torch.arange(16, dtype=torch.uint8), out_ptr=zeros(16, dtype=torch.int32), BLOCK=8)
@triton.jit
def bytes_counted_as_words(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    words = x_ptr.to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + offs, tl.load(words + offs))  # BUG: oob argument=x_ptr


@case((2,), x_ptr=torch.arange(80, dtype=torch.uint8), out_ptr=zeros(16, dtype=torch.int32), BLOCK=8)
@triton.jit
def words_at_an_odd_byte(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    words = (x_ptr + 2).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + offs, tl.load(words + offs))  # BUG: alignment argument=x_ptr


@case((3,), fresh="acc_ptr", x_ptr=rand(48), acc_ptr=torch.empty(48), BLOCK=16)
@triton.jit
def accumulates_into_fresh_memory(x_ptr, acc_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(acc_ptr + offs)  # BUG: uninit argument=acc_ptr
    tl.store(acc_ptr + offs, before + tl.load(x_ptr + offs))


@case((3,), fresh="acc_ptr", x_ptr=rand(48), acc_ptr=torch.empty(48), parts=3, BLOCK=16)
@triton.jit
def first_part_overwrites_fresh_memory(x_ptr, acc_ptr, parts, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for part in range(parts):
        x = tl.load(x_ptr + offs) * part
        if part > 0:
            x += tl.load(acc_ptr + offs)
        tl.store(acc_ptr + offs, x)


@case((3,), fresh="out_ptr", x_ptr=rand(40), out_ptr=torch.empty(48), n=40, BLOCK=16)
@triton.jit
def writes_all_of_a_fresh_output(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=0.0))


@case((3,), fresh="acc_ptr", x_ptr=rand(48), acc_ptr=torch.empty(16), BLOCK=16)
@triton.jit
def atomic_into_fresh_memory(x_ptr, acc_ptr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + cols)
    tl.atomic_add(acc_ptr + cols, x)  # BUG: uninit argument=acc_ptr


@case((3,), fresh="w_ptr", x_ptr=rand(40), w_ptr=torch.empty(16), out_ptr=zeros(40), n=40, BLOCK=16)
@triton.jit
def weight_was_never_initialised(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    offs = tl.program_id(0) * BLOCK + cols
    w = tl.load(w_ptr + cols)  # BUG: uninit argument=w_ptr
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * w, mask=offs < n)
