"""Two graphs of Triton's and torch's kernels, with a branch on another stream; or a compiled block's graphs.

torch_graphs.py            the graphs are launched in turns, with another input each time
torch_graphs.py compiled   torch.compile captures and launches them
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, y, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


N = 256


class Graph:
    """scaled, a product of torch's, and beside it, on another stream, scaled again; then their sum."""

    def __init__(self, factor: float) -> None:
        self.x, self.weight = (torch.randn(N, N, device="cuda") / 16 for _ in range(2))
        self.y, self.side, self.out = (torch.empty_like(self.x) for _ in range(3))
        self.factor, self.stream = factor, torch.cuda.Stream()
        self.run()  # compiled, and cuBLAS is set up, before the capture
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.run()

    def run(self) -> None:
        grid = (N * N // 1024,)
        scaled[grid](self.x, self.y, self.factor, N * N, BLOCK=1024)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            scaled[grid](self.y, self.side, 0.5, N * N, BLOCK=1024)
        product = self.y @ self.weight
        torch.cuda.current_stream().wait_stream(self.stream)
        added[grid](product, self.side, self.out, N * N, BLOCK=1024)


def compiled() -> None:
    gate, up, down = (torch.randn(N, N, device="cuda") / 16 for _ in range(3))

    @torch.compile(mode="reduce-overhead")
    def block(x):
        normed = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        return x + (torch.nn.functional.silu(normed @ gate) * (normed @ up)) @ down

    with torch.no_grad():
        for step in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.full((N, N), 1.0 + step, device="cuda").tril()
            print(f"{block(x).double().sum().item():.3f}")


torch.manual_seed(0)
if "compiled" in sys.argv:
    compiled()
else:
    first, second = Graph(2.0), Graph(3.0)
    for step in range(2):
        for each in (first, second):
            each.x.add_(step)
            each.graph.replay()
    torch.cuda.synchronize()
    print(f"{first.out.double().sum().item():.6f} {second.out.double().sum().item():.6f}")
