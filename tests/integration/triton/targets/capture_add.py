"""Launches a vector add a few times, a scale once, and says what it computed."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def scale(x, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) * factor, mask=mask)


def main(sizes):
    for n in sizes:
        x = torch.arange(n, dtype=torch.float32)
        out = torch.empty_like(x)
        add[(triton.cdiv(n, 256),)](x, x, out, n, BLOCK=256)
        print("sum", out.sum().item(), flush=True)
    scale[(triton.cdiv(sizes[0], 256),)](out, 2.0, sizes[0], BLOCK=256)
    print("done", out.sum().item(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main([int(part) for part in sys.argv[1:]] or [1000, 2000, 3000])
