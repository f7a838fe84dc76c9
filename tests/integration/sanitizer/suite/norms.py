"""Layer, RMS, group and batch norm: forward, and backward with partial sums, locks and atomics."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, izeros, rand, zeros


@case(
    (6,), heavy=True, x_ptr=half(6, 40), y_ptr=half(6, 40), w_ptr=rand(40), b_ptr=rand(40),
    mean_ptr=zeros(6), rstd_ptr=zeros(6), stride=40, n=40, eps=1e-5, BLOCK=16,
)  # fmt: skip
@triton.jit
def layer_norm_forward(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    y_ptr += row * stride
    x_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
        x = tl.where(cols < n, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for off in range(0, n, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < n
        w = tl.load(w_ptr + cols, mask=mask)
        b = tl.load(b_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


@case((6,), x_ptr=half(6, 40), y_ptr=half(6, 40), w_ptr=rand(40), stride=40, n=40, eps=1e-5, BLOCK=64)
@triton.jit
def layer_norm_weight_unmasked(x_ptr, y_ptr, w_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    w = tl.load(w_ptr + cols)  # BUG: oob argument=w_ptr
    tl.store(y_ptr + row * stride + cols, centred * rstd * w, mask=mask)


def backward_arguments(groups=3):
    return {
        "dx_ptr": zeros(6, 24), "dy_ptr": rand(6, 24), "dw_ptr": zeros(groups, 24),
        "db_ptr": zeros(groups, 24), "x_ptr": rand(6, 24), "w_ptr": rand(24), "mean_ptr": zeros(6),
        "rstd_ptr": rand(6), "lock_ptr": izeros(2 * groups), "stride": 24, "n": 24,
    }  # fmt: skip


@case((6,), **backward_arguments(), GROUPS=3, BLOCK=32)
@triton.jit
def layer_norm_backward_with_locks(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, n,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    group = row % GROUPS
    lock = lock_ptr + group
    count_ptr = lock + GROUPS
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0)
    w = tl.load(w_ptr + cols, mask=mask)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / n
    c2 = tl.sum(wdy, axis=0) / n
    tl.store(dx_ptr + row * stride + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    partial_dw = dy * xhat
    partial_db = dy
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial_dw += tl.load(dw_ptr + group * n + cols, mask=mask)
        partial_db += tl.load(db_ptr + group * n + cols, mask=mask)
    tl.store(dw_ptr + group * n + cols, partial_dw, mask=mask)
    tl.store(db_ptr + group * n + cols, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@case((6,), **backward_arguments(), GROUPS=3, BLOCK=32)
@triton.jit
def layer_norm_backward_lock_forgotten(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, n,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    group = row % GROUPS
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    tl.store(dx_ptr + row * stride + cols, dy * rstd, mask=mask)
    at = dw_ptr + group * n + cols
    partial = dy * (x - mean) * rstd + tl.load(at, mask=mask, other=0)  # BUG: race argument=dw_ptr
    tl.store(at, partial, mask=mask)  # BUG: race argument=dw_ptr


@case((2,), partial_ptr=rand(5, 24), out_ptr=zeros(24), m=5, n=24, BM=4, BN=16)
@triton.jit
def layer_norm_backward_second_stage(partial_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, m, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows[:, None] < m) & (cols[None, :] < n)
        acc += tl.load(partial_ptr + rows[:, None] * n + cols[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + cols, tl.sum(acc, axis=0), mask=cols < n)


@case(
    (5,), x_ptr=rand(5, 24), w_ptr=rand(24), y_ptr=zeros(5, 24), rstd_ptr=zeros(5), n=24, eps=1e-6, BLOCK=32
)
@triton.jit
def rms_norm_forward(x_ptr, w_ptr, y_ptr, rstd_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / n + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * n + cols, x * rstd * tl.load(w_ptr + cols, mask=mask, other=0), mask=mask)


@case((5,), x_ptr=rand(5, 24), w_ptr=rand(24), y_ptr=zeros(5, 24), n=24, eps=1e-6, BLOCK=32)
@triton.jit
def rms_norm_sums_an_undefined_tail(x_ptr, w_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / n + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0)
    tl.store(y_ptr + row * n + cols, x * rstd * w, mask=mask)  # PORTABLE: uninit argument=y_ptr


@case(
    (2,), x_ptr=rand(7, 24), dy_ptr=rand(7, 24), dw_ptr=zeros(2, 24), dx_ptr=zeros(7, 24), w_ptr=rand(24),
    rstd_ptr=rand(7), rows=7, n=24, per_program=4, BLOCK=32,
)  # fmt: skip
@triton.jit
def rms_norm_backward_blocks_of_rows(
    x_ptr, dy_ptr, dw_ptr, dx_ptr, w_ptr, rstd_ptr, rows, n, per_program, BLOCK: tl.constexpr
):
    pid = tl.program_id(0).to(tl.int64)
    first = pid * per_program
    last = min((pid + 1) * per_program, rows)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    for row in range(first, last):
        x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
        dy = tl.load(dy_ptr + row * n + cols, mask=mask, other=0.0)
        rstd = tl.load(rstd_ptr + row)
        m = dy * w
        dx = rstd * m - rstd * rstd * rstd * tl.sum(m * x, 0) / n * x
        dw += dy * x * rstd
        tl.store(dx_ptr + row * n + cols, dx, mask=mask)
    tl.store(dw_ptr + pid * n + cols, dw, mask=mask)


@case(
    (2,), x_ptr=rand(7, 24), dy_ptr=rand(7, 24), dw_ptr=zeros(2, 24), rstd_ptr=rand(7), n=24, per_program=4,
    BLOCK=32,
)  # fmt: skip
@triton.jit
def rms_norm_backward_last_block_too_long(
    x_ptr, dy_ptr, dw_ptr, rstd_ptr, n, per_program, BLOCK: tl.constexpr
):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(pid * per_program, (pid + 1) * per_program):
        x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)  # BUG: oob argument=x_ptr
        dy = tl.load(dy_ptr + row * n + cols, mask=mask, other=0.0)  # BUG: oob argument=dy_ptr
        rstd = tl.load(rstd_ptr + row)  # BUG: oob argument=rstd_ptr
        dw += dy * x * rstd
    tl.store(dw_ptr + pid * n + cols, dw, mask=mask)


@case((2, 4), x_ptr=rand(2, 12, 10), y_ptr=zeros(2, 12, 10), w_ptr=rand(12), groups=4, GC=3, hw=10, BLOCK=32)
@triton.jit
def group_norm_forward(x_ptr, y_ptr, w_ptr, groups, GC: tl.constexpr, hw, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    size = GC * hw
    base = (batch * groups + group) * size
    offs = tl.arange(0, BLOCK)
    mask = offs < size
    x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
    mean = tl.sum(x, 0) / size
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / size + 1e-5)
    channel = group * GC + offs // hw
    w = tl.load(w_ptr + channel, mask=mask, other=0.0)
    tl.store(y_ptr + base + offs, centred * rstd * w, mask=mask)


@case((2, 4), x_ptr=rand(2, 12, 10), y_ptr=zeros(2, 12, 10), w_ptr=rand(12), groups=4, GC=3, hw=10, BLOCK=32)
@triton.jit
def group_norm_channel_of_a_masked_lane(
    x_ptr, y_ptr, w_ptr, groups, GC: tl.constexpr, hw, BLOCK: tl.constexpr
):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    size = GC * hw
    base = (batch * groups + group) * size
    offs = tl.arange(0, BLOCK)
    mask = offs < size
    x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
    # Lanes past the group ask for the weight of a channel that the last group does not have.
    w = tl.load(w_ptr + group * GC + offs // hw)  # BUG: oob argument=w_ptr
    tl.store(y_ptr + base + offs, x * w, mask=mask)


@case((12,), x_ptr=rand(2, 12, 10), mean_ptr=zeros(12), batch=2, channels=12, hw=10, BLOCK=16)
@triton.jit
def batch_norm_statistics(x_ptr, mean_ptr, batch, channels, hw, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    total = 0.0
    for b in range(batch):
        for start in range(0, hw, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            at = x_ptr + (b * channels + channel) * hw + offs
            total += tl.sum(tl.load(at, mask=offs < hw, other=0.0), 0)
    tl.store(mean_ptr + channel, total / (batch * hw))


@case((12,), x_ptr=rand(2, 12, 10), mean_ptr=zeros(12), batch=2, channels=12, hw=10, BLOCK=16)
@triton.jit
def batch_norm_strides_swapped(x_ptr, mean_ptr, batch, channels, hw, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    total = 0.0
    for b in range(batch):
        offs = tl.arange(0, BLOCK)
        at = x_ptr + (channel * channels + b) * hw + offs
        total += tl.sum(tl.load(at, mask=offs < hw, other=0.0), 0)  # BUG: oob argument=x_ptr
    tl.store(mean_ptr + channel, total / (batch * hw))


@case((3,), x_ptr=rand(6, 24), db_ptr=zeros(24), m=6, n=24, BM=2, BLOCK=32)
@triton.jit
def bias_gradient_by_atomics(x_ptr, db_ptr, m, n, BM: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BLOCK)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(db_ptr + cols, tl.sum(x, 0), mask=cols < n)


@case((3,), x_ptr=rand(6, 24), db_ptr=zeros(24), m=6, n=24, BM=2, BLOCK=32)
@triton.jit
def bias_gradient_atomics_unmasked(x_ptr, db_ptr, m, n, BM: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BLOCK)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(db_ptr + cols, tl.sum(x, 0))  # BUG: oob argument=db_ptr
