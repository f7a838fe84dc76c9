"""One launch on a tensor of SIZE bytes, of which the first TOUCHED are read and written.

Programs take up to 64 KiB each: what Triton's interpreter takes for a program is not what is measured.
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(x_ptr + offsets, x + x, mask=offsets < n)


size, touched = int(sys.argv[1]), int(sys.argv[2])
x = torch.empty(size, dtype=torch.uint8)
x[:touched] = 1
block = min(max(triton.next_power_of_2(touched), 1 << 10), 1 << 16)
double[(triton.cdiv(touched, block),)](x, touched, BLOCK=block)
assert int(x[0]) == 2 and int(x[touched - 1]) == 2
