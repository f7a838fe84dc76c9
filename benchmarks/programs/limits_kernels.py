"""A copy, a softmax and a matrix product in Triton, each launched once: ``limits_kernels.py [MIB]``.

The copy moves MIB MiB from one tensor to another (256 by default), the softmax as much in rows of 8192, the
product is one of 8192 x 8192 in bfloat16.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns
    i = tl.arange(0, BLOCK)
    v = tl.load(x + at + i, mask=i < columns, other=float("-inf"))
    top = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + at + i, top / tl.sum(top, axis=0), mask=i < columns)


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    pid = tl.program_id(0)
    wide = GROUP * tl.cdiv(N, BN)
    first = pid // wide * GROUP
    height = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + pid % wide % height
    pid_n = pid % wide // height
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a + rows[:, None] * K + k[None, :]
    b_ptrs = b + k[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


def main() -> None:
    size = int(sys.argv[1]) << 20 if len(sys.argv) > 1 else 256 << 20
    torch.manual_seed(0)
    x = torch.randn(size // 4, device="cuda")
    y = torch.empty_like(x)
    copy_kernel[(x.numel() // 4096,)](x, y, BLOCK=4096, num_warps=8)
    softmax_kernel[(x.numel() // 8192,)](x, y, 8192, BLOCK=8192, num_warps=16)
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    blocks = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 8}
    matmul_kernel[(n // 128 * (n // 256),)](a, b, c, n, n, n, **blocks, num_warps=8, num_stages=4)
    torch.cuda.synchronize()
    torch.testing.assert_close(c[:64].float(), (a[:64] @ b).float(), rtol=2e-2, atol=1.0)


if __name__ == "__main__":
    main()
