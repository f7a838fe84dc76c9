"""The kernels whose work is counted by hand or by brute force."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    v = tl.load(x + row * stride + i, mask=mask, other=float("-inf"))
    top = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + i, top / tl.sum(top, axis=0), mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    first = pid // (GROUP * across) * GROUP
    height = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + pid % (GROUP * across) % height
    pid_n = pid % (GROUP * across) // height
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    columns = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a + rows[:, None] * K + k[None, :]
    b_ptrs = b + k[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(a_ptrs, mask=k[None, :] < K - step * BK, other=0.0)
        right = tl.load(b_ptrs, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(left, right, total)
        a_ptrs += BK
        b_ptrs += BK * N
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=mask)


@triton.jit
def attention(q, k, v, out, length, DIM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Causal: the loop's end depends on the program."""
    start = tl.program_id(0) * BM
    rows = start + tl.arange(0, BM)
    inner = tl.arange(0, DIM)
    mask = rows[:, None] < length
    queries = tl.load(q + rows[:, None] * DIM + inner[None, :], mask=mask, other=0.0)
    top = tl.full((BM,), float("-inf"), dtype=tl.float32)
    weight = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, DIM), dtype=tl.float32)
    for at in range(0, min(start + BM, length), BN):
        columns = at + tl.arange(0, BN)
        keys = tl.load(k + columns[:, None] * DIM + inner[None, :], mask=columns[:, None] < length, other=0.0)
        scores = tl.dot(queries, tl.trans(keys))
        scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(top - higher)
        values = tl.load(
            v + columns[:, None] * DIM + inner[None, :], mask=columns[:, None] < length, other=0.0
        )
        total = total * shrink[:, None] + tl.dot(p.to(tl.float16), values)
        weight = weight * shrink + tl.sum(p, axis=1)
        top = higher
    tl.store(out + rows[:, None] * DIM + inner[None, :], (total / weight[:, None]).to(tl.float16), mask=mask)


@triton.jit
def gather(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + tl.load(index + i, mask=mask, other=0), mask=mask), mask=mask)


@triton.jit
def ragged(x, lengths, out, BLOCK: tl.constexpr):
    """How far each program reads is in memory."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, tl.load(lengths + row), BLOCK):
        total += tl.load(x + row * 256 + at + tl.arange(0, BLOCK))
    tl.store(out + row, tl.sum(total, axis=0))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def column(x, out, rows, BLOCK: tl.constexpr):
    """Reads 4 bytes of every 64."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * 16, mask=i < rows), mask=i < rows)


@triton.jit
def precise(a, b, c, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision=PRECISION))
