"""The three kernels as one: a candidate for the whole range, `verify RANGE --candidate fused.py`."""

import triton
import triton.language as tl

LAUNCHES = [
    {
        "kernel": "mlp",
        "grid": [1],
        "arguments": {
            "x": "0.x", "norm": "0.weight", "weight": "1.b", "out": "2.out", "M": "1.M", "K": "1.K",
            "N": "2.columns",
        },
    },
]  # fmt: skip


@triton.jit
def mlp(x, norm, weight, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    rows, inner, columns = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    values = tl.load(x + rows[:, None] * K + inner[None, :])
    scale = 1.0 / tl.sqrt(tl.sum(values * values, axis=1) / K + 1e-6)
    normed = values * scale[:, None] * tl.load(norm + inner)[None, :]
    halves = weight + inner[:, None] * 2 * N + columns[None, :]
    gate = tl.dot(normed, tl.load(halves), input_precision="ieee")
    up = tl.dot(normed, tl.load(halves + N), input_precision="ieee")
    tl.store(out + rows[:, None] * N + columns[None, :], gate * tl.sigmoid(gate) * up)
