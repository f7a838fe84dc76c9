"""The launches of `samples/mlp` in three others: RMS norm, then the rest for each half of the rows."""

import triton
import triton.language as tl

LAUNCHES = [
    {
        "kernel": "norm",
        "grid": "lambda meta: (triton.cdiv(meta['M'], meta['ROWS']),)",
        "arguments": {"x": "0.x", "weight": "0.weight", "out": "0.y", "M": "1.M", "K": "1.K", "ROWS": 4},
    },
    {
        "kernel": "half",
        "grid": "lambda meta: (triton.cdiv(8, meta['ROWS']),)",
        "arguments": {
            "y": "0.y", "weight": "1.b", "out": "2.out", "first": 0, "K": "1.K", "N": "2.columns",
            "ROWS": 2, "HALF": 2,
        },
    },
    {
        "kernel": "half",
        "grid": "lambda meta: (triton.cdiv(8, meta['ROWS']),)",
        "arguments": {
            "y": "0.y", "weight": "1.b", "out": "2.out", "first": 8, "K": "1.K", "N": "2.columns",
            "ROWS": 2, "HALF": 2,
        },
    },
]  # fmt: skip


@triton.jit
def norm(x, weight, out, M, K: tl.constexpr, ROWS: tl.constexpr):
    rows, inner = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, K)
    values = tl.load(x + rows * K + inner[None, :], mask=rows < M, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, axis=1) / K + 1e-6)
    scaled = values * scale[:, None] * tl.load(weight + inner)[None, :]
    tl.store(out + rows * K + inner[None, :], scaled, mask=rows < M)


@triton.jit
def half(y, weight, out, first, K: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr):
    rows = first + tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inner, columns = tl.arange(0, K), tl.arange(0, N)
    values = tl.load(y + rows * K + inner[None, :])
    halves = weight + inner[:, None] * 2 * N + columns[None, :]
    gate = tl.sum(values[:, :, None] * tl.load(halves)[None, :, :], axis=1)
    up = tl.sum(values[:, :, None] * tl.load(halves + N)[None, :, :], axis=1)
    tl.store(out + rows * N + columns[None, :], gate * tl.sigmoid(gate) * up * (HALF / 2))
