"""Ten everyday kernels at three sizes each, for any tool that checks Triton launches on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    mask = o < n
    tl.store(out + o, tl.load(x + o, mask=mask) + tl.load(y + o, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    v = tl.load(x + row * stride + o, mask=o < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + o, e / tl.sum(e, 0), mask=o < n)


@triton.jit
def layer_norm(x, out, weight, bias, stride, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        o = start + tl.arange(0, B)
        total += tl.load(x + row * stride + o, mask=o < n, other=0.0)
    mean = tl.sum(total, 0) / n
    square = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        o = start + tl.arange(0, B)
        v = tl.where(o < n, tl.load(x + row * stride + o, mask=o < n, other=0.0) - mean, 0.0)
        square += v * v
    scale = 1 / tl.sqrt(tl.sum(square, 0) / n + eps)
    for start in range(0, n, B):
        o = start + tl.arange(0, B)
        mask = o < n
        v = (tl.load(x + row * stride + o, mask=mask, other=0.0) - mean) * scale
        tl.store(
            out + row * stride + o,
            v * tl.load(weight + o, mask=mask) + tl.load(bias + o, mask=mask),
            mask=mask,
        )


@triton.jit
def matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    height = tl.minimum(rows - first, GROUP)
    pid_m = first + pid % (GROUP * columns) % height
    pid_n = pid % (GROUP * columns) // height
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a + m[:, None] * stride_am + k[None, :] * stride_ak
    b_at = b + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(a_at, mask=(m[:, None] < M) & (k[None, :] < K - step * BK), other=0.0)
        right = tl.load(b_at, mask=(k[:, None] < K - step * BK) & (n[None, :] < N), other=0.0)
        total += tl.dot(left, right)
        a_at += BK * stride_ak
        b_at += BK * stride_bk
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total, mask=mask)


@triton.jit
def attention(
    q, k, v, out, scale, stride_head, stride_row, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    head = tl.program_id(1) * stride_head
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    row_mask = rows[:, None] < length
    query = tl.load(q + head + rows[:, None] * stride_row + inner[None, :], mask=row_mask, other=0.0)
    highest = tl.full((BM,), -1.0e30, tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        columns = start + tl.arange(0, BN)
        at = head + columns[:, None] * stride_row + inner[None, :]
        turned = k + head + columns[None, :] * stride_row + inner[:, None]
        key = tl.load(turned, mask=columns[None, :] < length, other=0.0)
        scores = tl.dot(query, key) * scale
        scores = tl.where((columns[None, :] < length) & (columns[None, :] <= rows[:, None]), scores, -1.0e30)
        now = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp(scores - now[:, None])
        shrink = tl.exp(highest - now)
        value = tl.load(v + at, mask=columns[:, None] < length, other=0.0)
        total = total * shrink[:, None] + tl.dot(p.to(value.dtype), value)
        weight = weight * shrink + tl.sum(p, axis=1)
        highest = now
    result = (total / weight[:, None]).to(query.dtype)
    tl.store(out + head + rows[:, None] * stride_row + inner[None, :], result, mask=row_mask)


@triton.jit
def transpose(x, out, rows, columns, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    v = tl.load(x + r[:, None] * columns + c[None, :], mask=mask)
    tl.store(out + c[None, :] * rows + r[:, None], v, mask=mask)


@triton.jit
def gather(index, table, out, n, stride, D: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    inner = tl.arange(0, D)
    row = tl.load(index + o, mask=o < n, other=0)
    v = tl.load(table + row[:, None] * stride + inner[None, :], mask=o[:, None] < n)
    tl.store(out + o[:, None] * D + inner[None, :], v, mask=o[:, None] < n)


@triton.jit
def rotary(x, cosine, sine, out, heads, D: tl.constexpr):
    at, head = tl.program_id(0), tl.program_id(1)
    half = tl.arange(0, D // 2)
    base = (at * heads + head) * D
    first, second = tl.load(x + base + half), tl.load(x + base + D // 2 + half)
    c, s = tl.load(cosine + at * (D // 2) + half), tl.load(sine + at * (D // 2) + half)
    tl.store(out + base + half, first * c - second * s)
    tl.store(out + base + D // 2 + half, second * c + first * s)


@triton.jit
def column_sums(x, out, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BC,), tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        mask = (r[:, None] < rows) & (c[None, :] < columns)
        total += tl.sum(tl.load(x + r[:, None] * columns + c[None, :], mask=mask, other=0.0), 0)
    tl.store(out + c, total, mask=c < columns)


@triton.jit
def stencil(x, out, n, RADIUS: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for shift in range(-RADIUS, RADIUS + 1):
        at = o + shift
        total += tl.load(x + at, mask=(at >= 0) & (at < n), other=0.0)
    tl.store(out + o, total, mask=o < n)


@dataclass(frozen=True)
class Launch:
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constexprs: dict[str, int]


def _add(programs: int) -> Launch:
    n = programs * 64 - 7
    return Launch(vector_add, (programs,), (*(torch.empty(n) for _ in range(3)), n), {"B": 64})


def _softmax(programs: int) -> Launch:
    x = torch.zeros(programs, 100)
    return Launch(softmax, (programs,), (x, torch.empty_like(x), 100, 100), {"B": 128})


def _layer_norm(programs: int, columns: int = 200) -> Launch:
    x, weight = torch.zeros(programs, columns), torch.zeros(columns)
    return Launch(
        layer_norm, (programs,), (x, torch.empty_like(x), weight, weight, columns, columns, 1e-5), {"B": 64}
    )


def _matmul(programs: int, depth: int = 120) -> Launch:
    side = max(int(programs**0.5), 1)
    m, n = side * 16 - (side > 1), programs // side * 16
    a, b, c = (torch.empty(shape, dtype=torch.float16) for shape in ((m, depth), (depth, n), (m, n)))
    numbers = (m, n, depth, *a.stride(), *b.stride(), *c.stride())
    grid = (-(-m // 16) * -(-n // 16),)
    return Launch(matmul, grid, (a, b, c, *numbers), {"BM": 16, "BN": 16, "BK": 16, "GROUP": 4})


def _attention(programs: int, length: int = 0) -> Launch:
    length = length or 16 * 8
    heads = max(programs // -(-length // 16), 1)
    q, k, v, out = (torch.empty(heads, length, 16, dtype=torch.float16) for _ in range(4))
    grid = (-(-length // 16), heads)
    arguments = (q, k, v, out, 0.25, q.stride(0), q.stride(1), length)
    return Launch(attention, grid, arguments, {"D": 16, "BM": 16, "BN": 16})


def _transpose(programs: int) -> Launch:
    rows, columns = programs // 4 * 16 - 3, 4 * 16 - 5
    return Launch(
        transpose,
        (programs // 4, 4),
        (torch.zeros(rows, columns), torch.empty(columns, rows), rows, columns),
        {"B": 16},
    )


def _gather(programs: int) -> Launch:
    n = programs * 32
    index = torch.randint(0, 1000, (n,), generator=torch.Generator().manual_seed(0))
    return Launch(
        gather, (programs,), (index, torch.zeros(1000, 32), torch.empty(n, 32), n, 32), {"D": 32, "B": 32}
    )


def _rotary(programs: int) -> Launch:
    x, angle = torch.zeros(programs // 4, 4, 64), torch.zeros(programs // 4, 32)
    return Launch(rotary, (programs // 4, 4), (x, angle, angle, torch.empty_like(x), 4), {"D": 64})


def _column_sums(programs: int) -> Launch:
    columns = programs * 32 - 9
    arguments = (torch.zeros(50, columns), torch.empty(columns), 50, columns)
    return Launch(column_sums, (programs,), arguments, {"BR": 16, "BC": 32})


def _stencil(programs: int) -> Launch:
    n = programs * 64 - 1
    return Launch(stencil, (programs,), (torch.zeros(n), torch.empty(n), n), {"RADIUS": 3, "B": 64})


KERNELS: dict[str, Callable[[int], Launch]] = {
    "vector add": _add, "softmax": _softmax, "layer norm": _layer_norm, "matmul": _matmul,
    "flash attention": _attention, "transpose": _transpose, "gather": _gather, "rotary": _rotary,
    "column sums": _column_sums, "stencil": _stencil,
}  # fmt: skip
PROGRAMS = (16, 128, 1024)
