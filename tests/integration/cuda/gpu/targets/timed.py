"""Copies, kernels on two streams, a graph and Triton's kernel, each in an NVTX range that waits for it."""

import torch
import triton
import triton.language as tl
from torch.cuda import nvtx


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


N = 1 << 20
host = torch.ones(N).pin_memory()
x = torch.empty(N, device="cuda")
side = torch.cuda.Stream()
double[(N // 1024,)](x, N, BLOCK=1024)
captured = torch.cuda.CUDAGraph()
with torch.cuda.graph(captured):
    for _ in range(3):
        torch.mul(x, 0.5, out=x)
torch.cuda.synchronize()


def in_range(name, work):
    nvtx.range_push(name)
    work()
    torch.cuda.synchronize()
    nvtx.range_pop()


def beside():
    with torch.cuda.stream(side):
        torch.cos(x, out=x)


for _ in range(5):
    in_range("upload", lambda: x.copy_(host, non_blocking=True))
    in_range("add", lambda: torch.add(x, x, out=x))
    in_range("beside", beside)
    in_range("graph", captured.replay)
    in_range("double", lambda: double[(N // 1024,)](x, N, BLOCK=1024))
    in_range("download", lambda: host.copy_(x, non_blocking=True))
print("done", host.sum().item())
