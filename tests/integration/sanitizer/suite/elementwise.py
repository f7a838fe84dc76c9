"""Maps: activations, gates, casts, broadcasts over rows and columns, rotary embeddings, dropout."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, rand, zeros


@case((4,), x_ptr=rand(100), y_ptr=rand(100), out_ptr=zeros(100), n=100, BLOCK=32)
@case((1,), "exact", x_ptr=rand(32), y_ptr=rand(32), out_ptr=zeros(32), n=32, BLOCK=32)
@triton.jit
def add_masked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


@case((4,), x_ptr=rand(100), y_ptr=rand(100), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def add_store_unmasked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    y = tl.load(y_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, x + y)  # BUG: oob argument=out_ptr


@case((4,), x_ptr=rand(100), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def relu_mask_off_by_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs <= n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, tl.maximum(x, 0.0), mask=mask)  # BUG: oob argument=out_ptr


@case(
    (3, 2), x_ptr=rand(40, 50), bias_ptr=rand(50), out_ptr=zeros(40, 50), m=40, n=50, stride=50, BM=16, BN=32
)
@triton.jit
def bias_add_2d(x_ptr, bias_ptr, out_ptr, m, n, stride, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * stride + cols[None, :], mask=mask)
    bias = tl.load(bias_ptr + cols, mask=cols < n)
    tl.store(out_ptr + rows[:, None] * stride + cols[None, :], x + bias[None, :], mask=mask)


@case(
    (3, 2), x_ptr=rand(40, 50), bias_ptr=rand(50), out_ptr=zeros(40, 50), m=40, n=50, stride=50, BM=16, BN=32
)
@triton.jit
def bias_add_masked_by_rows(x_ptr, bias_ptr, out_ptr, m, n, stride, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * stride + cols[None, :], mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=cols < m + 16, other=0.0)  # BUG: oob argument=bias_ptr
    tl.store(out_ptr + rows[:, None] * stride + cols[None, :], x + bias[None, :], mask=mask)


@case((6,), gate_ptr=rand(6, 24), up_ptr=rand(6, 24), out_ptr=zeros(6, 24), stride=24, n=24, BLOCK=32)
@triton.jit
def swiglu_rows(gate_ptr, up_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    gate_ptr += row * stride
    up_ptr += row * stride
    out_ptr += row * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    gate = tl.load(gate_ptr + cols, mask=mask, other=0).to(tl.float32)
    up = tl.load(up_ptr + cols, mask=mask, other=0)
    tl.store(out_ptr + cols, gate * tl.sigmoid(gate) * up, mask=mask)


@case((6,), x_ptr=rand(6, 48), out_ptr=zeros(6, 24), n=24, BLOCK=32)
@triton.jit
def geglu_packed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(x_ptr + row * 2 * n + cols, mask=mask, other=0)
    b = tl.load(x_ptr + row * 2 * n + n + cols, mask=mask, other=0)
    inner = 0.7978845608 * (a + 0.044715 * a * a * a)
    out = 0.5 * a * (1 + 2 * tl.sigmoid(2 * inner) - 1) * b
    tl.store(out_ptr + row * n + cols, out, mask=mask)


@case((6,), x_ptr=rand(6, 48), out_ptr=zeros(6, 24), n=24, BLOCK=32)
@triton.jit
def geglu_second_half_too_far(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(x_ptr + row * 2 * n + cols, mask=mask, other=0)
    b = tl.load(x_ptr + row * 2 * n + 2 * n + cols, mask=mask, other=0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + row * n + cols, a * tl.sigmoid(b), mask=mask)


@case(
    (5, 4), q_ptr=rand(5, 4, 16), cos_ptr=rand(5, 8), sin_ptr=rand(5, 8), out_ptr=zeros(5, 4, 16), heads=4,
    HALF=8,
)  # fmt: skip
@triton.jit
def rope_half_rotation(q_ptr, cos_ptr, sin_ptr, out_ptr, heads, HALF: tl.constexpr):
    token = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, HALF)
    base = (token * heads + head) * 2 * HALF
    cos = tl.load(cos_ptr + token * HALF + d)
    sin = tl.load(sin_ptr + token * HALF + d)
    first = tl.load(q_ptr + base + d)
    second = tl.load(q_ptr + base + HALF + d)
    tl.store(out_ptr + base + d, first * cos - second * sin)
    tl.store(out_ptr + base + HALF + d, second * cos + first * sin)


@case((5, 4), q_ptr=rand(5, 4, 16), cos_ptr=rand(5, 8), sin_ptr=rand(5, 8), heads=4, HALF=8)
@triton.jit
def rope_table_indexed_by_head_dim(q_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr):
    token = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, HALF)
    q = q_ptr + (token * heads + head) * 2 * HALF
    cos = tl.load(cos_ptr + token * 2 * HALF + d)  # BUG: oob argument=cos_ptr
    sin = tl.load(sin_ptr + token * HALF + d)
    first = tl.load(q + d)
    second = tl.load(q + HALF + d)
    tl.store(q + d, first * cos - second * sin)
    tl.store(q + HALF + d, second * cos + first * sin)


@case((4,), x_ptr=rand(100), out_ptr=zeros(100), n=100, p=0.3, seed=7, BLOCK=32)
@triton.jit
def dropout_philox(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    keep = tl.rand(seed, offs) > p
    tl.store(out_ptr + offs, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@case((4,), x_ptr=rand(100), keep_ptr=zeros(100, dtype=torch.bool), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def dropout_saved_mask(x_ptr, keep_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    keep = tl.load(keep_ptr + offs)  # BUG: oob argument=keep_ptr
    tl.store(out_ptr + offs, tl.where(keep, x * 2.0, 0.0), mask=mask)


@case((2, 2), x_ptr=half(20, 30), out_ptr=half(30, 20), m=20, n=30, BLOCK=16)
@triton.jit
def transpose_tiles(x_ptr, out_ptr, m, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x_ptr + rows[:, None] * n + cols[None, :], mask=(rows[:, None] < m) & (cols[None, :] < n))
    ok = (cols[:, None] < n) & (rows[None, :] < m)
    tl.store(out_ptr + cols[:, None] * m + rows[None, :], tl.trans(tile), mask=ok)


@case((2, 2), x_ptr=half(20, 30), out_ptr=half(30, 20), m=20, n=30, BLOCK=16)
@triton.jit
def transpose_wrong_leading_dimension(x_ptr, out_ptr, m, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(
        x_ptr + rows[:, None] * n + cols[None, :], mask=(rows[:, None] < m) & (cols[None, :] < n), other=0
    )
    ok = (cols[:, None] < n) & (rows[None, :] < m)
    # BUG: oob argument=out_ptr
    tl.store(out_ptr + cols[:, None] * n + rows[None, :], tl.trans(tile), mask=ok)


@case((4,), x_ptr=rand(100), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def reverse_copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + n - 1 - offs, mask=mask), mask=mask)


@case((4,), x_ptr=rand(100), out_ptr=zeros(100), n=100, BLOCK=32)
@triton.jit
def reverse_copy_without_minus_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + (n - offs), mask=mask)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x, mask=mask)


@case((2,), x_ptr=rand(70), out_ptr=zeros(70), n=70, BLOCK=16)
@triton.jit
def clamp_grid_stride(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    step = tl.num_programs(0) * BLOCK
    for base in range(start, n, step):
        offs = base + tl.arange(0, BLOCK)
        mask = offs < n
        x = tl.load(x_ptr + offs, mask=mask)
        tl.store(out_ptr + offs, tl.minimum(tl.maximum(x, -1.0), 1.0), mask=mask)


@case((2,), x_ptr=rand(70), out_ptr=zeros(70), n=70, BLOCK=16)
@triton.jit
def clamp_grid_stride_step_too_small(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    for base in range(start, n, BLOCK):
        offs = base + tl.arange(0, BLOCK)
        mask = offs < n
        x = tl.load(x_ptr + offs, mask=mask)
        y = x * (tl.program_id(0) + 1).to(tl.float32)
        tl.store(out_ptr + offs, y, mask=mask)  # BUG: race argument=out_ptr


@case((4,), x_ptr=rand(4, 30), out_ptr=zeros(4, 30), n=30, BLOCK=32)
@triton.jit
def undefined_tail_reaches_a_store(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    mean = tl.sum(x, 0) / n
    tl.store(out_ptr + row * n + cols, x - mean, mask=cols < n)  # PORTABLE: uninit argument=out_ptr


@case((4,), x_ptr=rand(4, 30), out_ptr=zeros(4, 30), n=30, BLOCK=32)
@triton.jit
def undefined_tail_replaced(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    mean = tl.sum(tl.where(cols < n, x, 0.0), 0) / n
    tl.store(out_ptr + row * n + cols, x - mean, mask=cols < n)


@case((3,), x_ptr=ints(range(48)), out_ptr=zeros(48, dtype=torch.int32), n=48, BLOCK=16)
@triton.jit
def shift_right_by_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    previous = tl.load(x_ptr + offs - 1, mask=(offs < n) & (offs > 0), other=0)
    tl.store(out_ptr + offs, previous, mask=offs < n)


@case((3,), x_ptr=ints(range(48)), out_ptr=zeros(48, dtype=torch.int32), n=48, BLOCK=16)
@triton.jit
def shift_right_reads_before_the_start(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    previous = tl.load(x_ptr + offs - 1, mask=offs < n, other=0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, previous, mask=offs < n)


@case((3,), x_ptr=rand(48), n=48, BLOCK=16)
@triton.jit
def smooth_in_place_over_the_halo(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + offs - 1, mask=(offs > 0) & (offs < n), other=0)  # BUG: race argument=x_ptr
    here = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(x_ptr + offs, (left + here) * 0.5, mask=offs < n)  # BUG: race argument=x_ptr


@case((3,), x_ptr=rand(48), out_ptr=zeros(48), n=48, BLOCK=16)
@triton.jit
def smooth_out_of_place(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + offs - 1, mask=(offs > 0) & (offs < n), other=0)
    right = tl.load(x_ptr + offs + 1, mask=offs + 1 < n, other=0)
    tl.store(out_ptr + offs, (left + right) * 0.5, mask=offs < n)
