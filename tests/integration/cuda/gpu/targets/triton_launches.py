"""Triton launches that differ in what is passed: shared memory, clusters, TMA maps, scalars."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, s, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) * s + tl.load(y_ptr + i, mask=mask), mask=mask)


@triton.jit
def tiles_dot(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


@triton.jit
def copied_tile(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    target.store([row, 0], source.load([row, 0]) * 2)


@triton.jit
def clustered(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + 1, mask=mask)


@triton.jit
def by_scalars(x_ptr, count_ptr, factor_ptr, out_ptr, shift, flag, nothing, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < tl.load(count_ptr)
    x = tl.load(x_ptr + i, mask=mask, other=0).to(tl.float32)
    if flag:
        x = x * tl.load(factor_ptr) + shift
    tl.store(out_ptr + i, x.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def counted(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.atomic_add(counts_ptr + tl.load(x_ptr + i, mask=mask, other=0), 1, mask=mask)


def main() -> None:
    torch.manual_seed(1)
    device = "cuda"
    n = 1000
    x, y = torch.randn(n, device=device), torch.randn(n, device=device)
    out = torch.empty_like(x)
    scaled_add[(triton.cdiv(n, 256),)](x, y, out, 1.5, n, BLOCK=256)

    a = torch.randn(128, 256, device=device, dtype=torch.float16)
    b = torch.randn(256, 128, device=device, dtype=torch.float16)
    c = torch.empty(128, 128, device=device)
    tiles_dot[(1,)](a, b, c, 256, M=128, N=128, BK=64, num_stages=3, num_warps=8)  # 96 KiB of shared memory

    tile = torch.randn(64, 64, device=device, dtype=torch.float16)
    twice = torch.empty_like(tile)
    block = [16, 64]
    copied_tile[(4,)](
        TensorDescriptor.from_tensor(tile, block),
        TensorDescriptor.from_tensor(twice, block),
        ROWS=16,
        COLUMNS=64,
    )

    next_ = torch.empty_like(x)
    clustered[(2,)](x, next_, n, BLOCK=512, num_ctas=2)

    halves = torch.randn(100, device=device).to(torch.bfloat16)
    some = torch.empty_like(halves)
    count, factor = torch.tensor(77, device=device), torch.tensor(2.5, device=device)
    some.zero_()
    by_scalars[(1,)](halves, count, factor, some, -0.5, True, None, BLOCK=128)

    words = torch.randint(0, 64, (n,), device=device, dtype=torch.int32)
    counts = torch.zeros(64, device=device, dtype=torch.int32)
    counted[(4,)](words, counts, n, BLOCK=256)

    results = (out, c, twice, next_, some, counts)
    print(*(f"{result.double().sum().item():.3f}" for result in results))


if __name__ == "__main__":
    main()
