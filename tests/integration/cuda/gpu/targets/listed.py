"""Launches by several ways, and torch's own profiler at the end."""

import torch
import triton
import triton.language as tl
from torch.cuda import nvtx


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def adds(x: torch.Tensor) -> None:
    for _ in range(20):
        torch.add(x, x, out=x)


def graph(x: torch.Tensor) -> None:
    torch.mul(x, 0.5, out=x)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(3):
            torch.mul(x, 0.5, out=x)
    for _ in range(50):
        captured.replay()
    torch.cuda.synchronize()


x = torch.ones(100_000, device="cuda")
nvtx.range_push("outer")
nvtx.range_push("inner")
adds(x)
nvtx.range_pop()
nvtx.range_pop()
graph(x)
for _ in range(7):
    double[(98,)](x, 100_000, BLOCK=1024)
torch.cuda.synchronize()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
    torch.sub(x, x, out=x)
    torch.cuda.synchronize()
names = [event.key for event in profiler.key_averages() if "Functor" in event.key]
print("profiled" if names else "nothing profiled", x.sum().item())
