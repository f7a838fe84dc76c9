"""One launch on a tensor of SIZE bytes, of which the first TOUCHED are read and written."""

import sys

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(x_ptr + offsets, x + x, mask=offsets < n)


size, touched = int(sys.argv[1]), int(sys.argv[2])
x = torch.empty(size, dtype=torch.uint8)
x[:touched] = 1
double[(triton.cdiv(touched, BLOCK),)](x, touched, BLOCK=BLOCK)
assert int(x[0]) == 2 and int(x[touched - 1]) == 2
