"""Norm, product and activation: Triton kernels with torch's own between them, some times over."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, w, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(values * values) / n + 1e-6)
    tl.store(y + row * n + at, values * scale * tl.load(w + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def swiglu(gate_up, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    gate = tl.load(gate_up + row * 2 * n + at, mask=at < n)
    up = tl.load(gate_up + row * 2 * n + n + at, mask=at < n)
    tl.store(out + row * n + at, gate * tl.sigmoid(gate) * up, mask=at < n)


torch.manual_seed(0)
rows, n = 256, 1024
x, w = torch.randn(rows, n, device="cuda"), torch.randn(n, device="cuda")
weight = torch.randn(n, 2 * n, device="cuda")
for step in range(3):
    normed = torch.empty_like(x)
    rms_norm[(rows,)](x, w, normed, n, BLOCK=1024)
    gate_up = normed @ weight
    out = torch.empty_like(x)
    swiglu[(rows,)](gate_up, out, n, BLOCK=1024)
    if "host" in sys.argv:
        out[0, 0] = float(step)
    x = x + out / out.abs().max()
torch.cuda.synchronize()
print(float(x.sum()))
