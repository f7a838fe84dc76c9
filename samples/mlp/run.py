"""RMS norm, matrix product and SwiGLU, three kernels one after the other as in a transformer's MLP."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, y, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(values * values) / columns + 1e-6)
    scaled = values * scale * tl.load(weight + at, mask=at < columns, other=0.0)
    tl.store(y + row * columns + at, scaled, mask=at < columns)


@triton.jit
def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + columns[None, :])
    tl.store(c + rows[:, None] * N + columns[None, :], tl.dot(left, right, input_precision="ieee"))


@triton.jit
def swiglu(gate_up, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    gate = tl.load(gate_up + row * 2 * columns + at, mask=at < columns)
    up = tl.load(gate_up + row * 2 * columns + columns + at, mask=at < columns)
    tl.store(out + row * columns + at, gate * tl.sigmoid(gate) * up, mask=at < columns)


def mlp(x: torch.Tensor, norm: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    normed, out = torch.empty_like(x), torch.empty_like(x)
    gate_up = torch.empty(rows, 2 * columns, device=x.device)
    rms_norm[(rows,)](x, norm, normed, columns, BLOCK=columns)
    matmul[(1,)](normed, weight, gate_up, M=rows, N=2 * columns, K=columns)
    swiglu[(rows,)](gate_up, out, columns, BLOCK=columns)
    return out


def expected(x: torch.Tensor, norm: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    gate, up = (torch.rms_norm(x, x.shape[1:], norm, 1e-6) @ weight).chunk(2, dim=1)
    return torch.nn.functional.silu(gate) * up


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    x, norm = torch.randn(16, 32, device=device), torch.randn(32, device=device)
    weight = torch.randn(32, 64, device=device)
    for _ in range(3):
        out = mlp(x, norm, weight)
        torch.testing.assert_close(out, expected(x, norm, weight), rtol=1e-4, atol=1e-4)
        x = out
    print(f"mlp: 3 layers agree with torch ({device})")


if __name__ == "__main__":
    main()
