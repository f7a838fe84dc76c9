"""Kernels that lay out the tiles of their programs, as they are written."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def overlapping(x, o, n, STEP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.program_id(0), mask=i < n)


@triton.jit
def copied(x, o, n, STEP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def stencil(x, n, OFF: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    right = tl.load(x + i + OFF, mask=i + OFF < n)
    tl.store(x + i, right * 2, mask=i < n)


@triton.jit
def matmul(a, b, c, M, N, K, stride, B: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, B)
    num_n = tl.cdiv(N, B)
    width = GROUP * num_n
    group = pid // width
    first = group * GROUP
    size = min(num_m - first, GROUP)
    pm = first + (pid % width) % size
    pn = (pid % width) // size
    rows = (pm * B + tl.arange(0, B)) % M
    cols = (pn * B + tl.arange(0, B)) % N
    k = tl.arange(0, BK)
    pa = a + rows[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + cols[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(pa, mask=k[None, :] < K - step * BK, other=0.0)
        right = tl.load(pb, mask=k[:, None] < K - step * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        pa += BK
        pb += BK * N
    m = pm * B + tl.arange(0, B)
    n = pn * B + tl.arange(0, B)
    tl.store(c + m[:, None] * stride + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def persistent(x, o, M, N, SMS: tl.constexpr, B: tl.constexpr):
    num_n = tl.cdiv(N, B)
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * num_n, SMS):
        m = tile // num_n * B + tl.arange(0, B)
        n = tile % num_n * B + tl.arange(0, B)
        place = m[:, None] * N + n[None, :]
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(o + place, tl.load(x + place, inside) + tl.program_id(0), inside)


@triton.jit
def xor_swizzle(o, B: tl.constexpr, TWIST: tl.constexpr):
    pid = tl.program_id(0)
    row = pid // 8
    column = (pid % 8) ^ (row * TWIST % 8)
    i = tl.arange(0, B)
    tl.store(o + (row * 8 + column) * B + i, i)


@triton.jit
def heads(q, o, H, M, sb, sm, sh, D: tl.constexpr, B: tl.constexpr):
    start = tl.program_id(0) * B
    batch = tl.program_id(1) // H
    head = tl.program_id(1) % H
    m = start + tl.arange(0, B)
    d = tl.arange(0, D)
    place = batch * sb + head * sh + m[:, None] * sm + d[None, :]
    tl.store(o + place, tl.load(q + place, m[:, None] < M) + head, m[:, None] < M)


@triton.jit
def split_k(x, part, M, S, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.program_id(1)
    value = tl.load(x + s * M + m, m < M)
    tl.store(part + s * S + m, value, m < M)


@triton.jit
def guarded(o, n, WHO: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(o, n)
    if pid >= WHO:
        tl.store(o + 1, pid)


@triton.jit
def everybody(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + tl.program_id(0) * B + i), mask=i < n)


@triton.jit
def turned(o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, i)
    tl.store(o + B + i, tl.load(o + B - 1 - i))


@triton.jit
def early_return(x, n, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid * B >= n:
        return
    i = pid * B + tl.arange(0, B)
    tl.store(x + i, i, mask=i < n)


@triton.jit
def sub_word(o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, (i % 7).to(tl.int8), mask=i < n)


@triton.jit
def from_the_end(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + (n - 1 - i), tl.load(x + i, i < n), i < n)


@triton.jit
def interleaved(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + 2 * i, tl.load(x + i, i < n), i < n)
    tl.store(o + 2 * i + 1, tl.load(x + i, i < n), i < n)


@triton.jit
def row_norm(x, o, stride, n, rows, STEP: tl.constexpr, B: tl.constexpr):
    for row in range(tl.program_id(0), rows, STEP):
        total = 0.0
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            total += tl.sum(tl.load(x + row * stride + i, i < n, other=0.0))
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            value = tl.load(x + row * stride + i, i < n)
            tl.store(o + row * stride + i, value / total, i < n)


@triton.jit
def block_pointers(x, o, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(o, [M, N], [N, 1], [B, B])
    m, n = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([m, n], source.load([m, n]))


@triton.jit
def three_axes(o, X, Y, Z, B: tl.constexpr):
    x = tl.program_id(0) * B + tl.arange(0, B)
    y, z = tl.program_id(1), tl.program_id(2)
    tl.store(o + (z * Y + y) * X + x, x, x < X)


@triton.jit
def statistics(x, o, mean, n, B: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, B)
    average = tl.sum(tl.load(x + row * n + i, mask=i < n, other=0.0)) / n
    tl.store(mean + row, average)
    j = part * 16 + tl.arange(0, 16)
    tl.store(o + row * n + j, tl.load(x + row * n + j, mask=j < n) - average, mask=j < n)


@triton.jit
def rows_of_a_program(x, o, rows, n, PER: tl.constexpr, B: tl.constexpr):
    """As many rows in a run for each program; the last one has what is left."""
    first = tl.program_id(0) * PER
    i = tl.arange(0, B)
    for row in range(first, min(first + PER, rows)):
        tl.store(o + row * n + i, tl.load(x + row * n + i, i < n), i < n)
