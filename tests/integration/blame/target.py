"""A kernel whose constants are folded, and of whose operations each matters."""

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def scaled(x, y, out, n, HALF: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    factor = tl.full((BLOCK,), 2.5, tl.float32) + HALF
    left = tl.load(x + at, mask=here)
    right = tl.load(y + at, mask=here)
    tl.store(out + at, (left - right) * factor + right, mask=here)


torch.manual_seed(0)
x, y = torch.rand(200, device=DEVICE), torch.rand(200, device=DEVICE)
out = torch.empty(200, device=DEVICE)
scaled[(4,)](x, y, out, 200, HALF=0.5, BLOCK=64)
print(float(out.sum()))
