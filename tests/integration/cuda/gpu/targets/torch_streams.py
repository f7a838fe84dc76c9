"""Pairs of Triton launches on two streams, the second of which reads what the first stores."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def fill(x_ptr, value, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, value + at * 0.5, mask=at < n)


@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


N, BLOCK = 4096, 1024
GRID = (N // BLOCK,)


def main() -> int:
    inputs = [torch.zeros(N, device="cuda") for _ in range(6)]
    outputs = [torch.zeros(N, device="cuda") for _ in range(6)]
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    fill[GRID](inputs[5], 1.0, N, BLOCK=BLOCK)
    double[GRID](inputs[5], outputs[5], N, BLOCK=BLOCK)
    torch.cuda.synchronize()
    ways = [
        lambda: None,
        lambda: second.wait_stream(first),
        lambda: first.synchronize(),
        lambda: torch.cuda.synchronize(),
        lambda: inputs[4][:1].item(),
    ]
    for number, order in enumerate(ways):
        with torch.cuda.stream(first):
            fill[GRID](inputs[number], float(number), N, BLOCK=BLOCK)
            order()
        with torch.cuda.stream(second):
            double[GRID](inputs[number], outputs[number], N, BLOCK=BLOCK)
    torch.cuda.synchronize()
    expected = torch.arange(N, device="cuda") * 0.5
    return 0 if torch.equal(outputs[1], (expected + 1) * 2) else 1


if __name__ == "__main__":
    sys.exit(main())
