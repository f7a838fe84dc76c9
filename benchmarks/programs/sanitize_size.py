"""One launch on a tensor of SIZE bytes, of which the first TOUCHED are read and written.

Elements take eight bytes and programs up to 512 KiB: what Triton's interpreter needs for either is not what
is measured.
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


size, n = (int(word) // 8 for word in sys.argv[1:])
x = torch.empty(size, dtype=torch.int64)
x[:n] = 1
block = min(max(triton.next_power_of_2(n), 1 << 10), 1 << 16)
double[(triton.cdiv(n, block),)](x, n, BLOCK=block)
assert int(x[0]) == 2 and int(x[n - 1]) == 2
