"""C = A @ B with an autotuner that counts instead of timing, so that it runs with no GPU too."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

import triton
import triton.language as tl

benchmarked: list[float] = []


def count_calls(kernel_call, quantiles):
    """In the place of a benchmark: runs the configuration once; the second one wins."""
    kernel_call()
    benchmarked.append(1.0 if len(benchmarked) == 1 else 2.0)
    return [benchmarked[-1]] * len(quantiles)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 32}, num_warps=4),
    ],
    key=["M", "N", "K"],
    do_bench=count_calls,
)
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + inner
        a_mask, b_mask = rows[:, None] < M, columns[None, :] < N
        if not EVEN_K:
            a_mask, b_mask = a_mask & (k[None, :] < K), b_mask & (k[:, None] < K)
        a = tl.load(a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn, mask=b_mask, other=0.0)
        total += tl.dot(a, b)
    out = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(out, total.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    m, n, k = 70, 48, 64
    a = torch.randn(m, k, device=device, dtype=torch.float16)
    b = torch.randn(n, k, device=device, dtype=torch.float16).T  # column-major
    c = torch.empty(m, n, device=device, dtype=torch.float16)

    def grid(meta):
        return triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"])

    matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
    torch.testing.assert_close(c.float(), a.float() @ b.float(), atol=5e-2, rtol=1e-2)
    chosen = f"BLOCK_M={matmul_kernel.best_config.kwargs['BLOCK_M']} of {len(benchmarked)} configurations"
    print(f"autotuned_matmul: {m}x{k} @ {k}x{n} agrees with torch, {chosen} ({device})")


if __name__ == "__main__":
    main()
