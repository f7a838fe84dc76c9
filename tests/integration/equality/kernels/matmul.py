"""Products of matrices."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        right = tl.load(b + deep[:, None] * n + columns, mask=(deep[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < m) & (columns < n)
    tl.store(c + rows[:, None] * n + columns, total, mask=inside)


@triton.jit
def matmul_by_rows(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """One program a tile, in the other order, by sums of products."""
    tiles = tl.cdiv(n, N)
    rows = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    row, column = rows // tiles, rows % tiles
    across = column * N + tl.arange(0, N)
    down = row * M + tl.arange(0, M)
    total = tl.zeros([M, N], tl.float32)
    for deep in range(k):
        left = tl.load(a + down * k + deep, mask=down < m, other=0.0)
        right = tl.load(b + deep * n + across, mask=across < n, other=0.0)
        total += left[:, None] * right[None, :]
    tl.store(c + down[:, None] * n + across, total, mask=(down[:, None] < m) & (across < n))


@triton.jit
def matmul_split(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Sums of parts in memory, which holds zeros before."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    deep = tl.program_id(2) * K + tl.arange(0, K)
    left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
    right = tl.load(b + deep[:, None] * n + columns, mask=(deep[:, None] < k) & (columns < n), other=0.0)
    inside = (rows[:, None] < m) & (columns < n)
    tl.atomic_add(c + rows[:, None] * n + columns, tl.dot(left, right), mask=inside)


@triton.jit
def matmul_added(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inside = (rows[:, None] < m) & (columns < n)
    total = tl.load(c + rows[:, None] * n + columns, mask=inside, other=0.0)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        right = tl.load(b + deep[:, None] * n + columns, mask=(deep[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total, mask=inside)


@triton.jit
def matmul_without_tail(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k // K * K, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=rows[:, None] < m, other=0.0)
        right = tl.load(b + deep[:, None] * n + columns, mask=columns < n, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total, mask=(rows[:, None] < m) & (columns < n))


@triton.jit
def matmul_transposed(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        left = tl.load(a + rows[:, None] * k + deep, mask=(rows[:, None] < m) & (deep < k), other=0.0)
        right = tl.load(b + columns * k + deep[:, None], mask=(deep[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns, total, mask=(rows[:, None] < m) & (columns < n))
