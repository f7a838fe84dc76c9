"""Kernels with one mistake each, and the same without it: a constexpr BUG tells them apart."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs <= n if BUG == "off by one" else offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    if BUG == "no mask":
        tl.store(out_ptr + offs, x + y)
    else:
        tl.store(out_ptr + offs, x + y, mask=mask)


@triton.jit
def copy_2d(src, dst, M, N, stride, BM: tl.constexpr, BN: tl.constexpr, BUG: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    value = tl.load(src + rows[:, None] * stride + cols[None, :], mask=inside)
    if BUG == "rows":
        tl.store(dst + rows[:, None] * N + cols[None, :], value, mask=cols[None, :] < N)
    elif BUG == "both":
        tl.store(dst + rows[:, None] * N + cols[None, :], value)
    elif BUG == "stride":
        tl.store(dst + rows[:, None] * (N + 1) + cols[None, :], value, mask=inside)
    else:
        tl.store(dst + rows[:, None] * N + cols[None, :], value, mask=inside)


@triton.jit
def row_sum(x, out, n, BLOCK: tl.constexpr, BUG: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    start = x + row * n
    for k in range(0, n, BLOCK):
        offs = k + tl.arange(0, BLOCK)
        if BUG:
            total += tl.load(start + offs)
        else:
            total += tl.load(start + offs, mask=offs < n, other=0.0)
    tl.store(out + row, tl.sum(total))


@triton.jit
def shifted(x, out, n, BLOCK: tl.constexpr, BUG: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n if BUG else (offs >= 1) & (offs < n)
    tl.store(out + offs, tl.load(x + offs - 1, mask=mask, other=0.0), mask=offs < n)


@triton.jit
def large_rows(x, n_rows, n_cols, BLOCK: tl.constexpr, BUG: tl.constexpr):
    row = tl.program_id(0)
    if not BUG:
        row = row.to(tl.int64)
    cols = tl.arange(0, BLOCK)
    tl.store(x + row * n_cols + cols, 0, mask=cols < n_cols)


@triton.jit
def lost_row(x, out, SCALE: tl.constexpr, BLOCK: tl.constexpr, WAY: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    if WAY == "remainder":
        row = row % 3
    if WAY == "choice":
        row = tl.where((row % 3 == 0) & (row < 100), row, 4 - row)
    row = (row.to(tl.int64) * SCALE).to(tl.int16)
    tl.store(out + tl.program_id(0) * BLOCK + i, tl.load(x + row + i))


@triton.jit
def one_row(x, out, row, stride, BLOCK: tl.constexpr, BUG: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    if not BUG:
        stride = stride.to(tl.int64)
    start = row * stride
    tl.store(out + cols, tl.load(x + start + cols))


@triton.jit
def hash_table(keys, table, n, SIZE: tl.constexpr, BLOCK: tl.constexpr, BUG: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = offs.to(tl.uint32) * 2654435761
    slot = (mixed ^ (mixed >> 15)) % (SIZE + 1 if BUG else SIZE)
    tl.store(table + slot, tl.load(keys + offs, mask=offs < n), mask=offs < n)


@triton.jit
def philox_dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, offs) > p
    tl.store(out + offs, tl.where(keep, tl.load(x + offs, mask=offs < n), 0.0), mask=offs < n)


@triton.jit
def either(x, y, out, BLOCK: tl.constexpr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    if pid % 2 == 0:
        source = x
    else:
        source = y
    limit = BLOCK if BUG else BLOCK // 2
    tl.store(out + offs, tl.load(source + offs, mask=offs < limit, other=0.0))


@triton.jit
def leaves_early(x, n, limit, BLOCK: tl.constexpr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    if not BUG:  # noqa: SIM102 -- BUG is known when this is compiled, pid is not
        if pid >= limit:
            return
    tl.store(x + pid * BLOCK + tl.arange(0, BLOCK), 0.0)


@triton.jit
def described(x, out, M, N, rows, BM: tl.constexpr, BN: tl.constexpr):
    descriptor = tl.make_tensor_descriptor(x, [rows, N], [N, 1], [BM, BN])
    tile = descriptor.load([tl.program_id(0) * BM, tl.program_id(1) * BN])
    tl.store(out + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], tile)


@triton.jit
def through_table(table, out, BLOCK: tl.constexpr):
    source = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offs = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + offs, tl.load(source + offs))


@triton.jit
def nested(x, n, INNER: tl.constexpr, BUG: tl.constexpr):
    for i in range(n):
        for j in range(INNER):
            tl.store(x + i * INNER + j + (1 if BUG else 0), 1.0)
