"""Even and odd steps in NVTX ranges, each with its own BLOCK, until a file appears: steps.py END [STEPS]."""

import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch.cuda import nvtx


@triton.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


end = Path(sys.argv[1])
steps = int(sys.argv[2]) if len(sys.argv) > 2 else None
x = torch.zeros(100_000, device="cuda")
step = 0
while not end.exists() and step != steps:
    nvtx.range_push("odd" if step % 2 else "even")
    BLOCK = 512 if step % 2 else 1024
    add_one[(triton.cdiv(x.numel(), BLOCK),)](x, x.numel(), BLOCK=BLOCK)
    torch.mul(x, 1.0, out=x)
    nvtx.range_pop()
    torch.cuda.synchronize()
    step += 1
    if steps is None:
        time.sleep(0.01)
print("right" if bool((x == step).all()) else "wrong")
