import torch, triton, triton.language as tl
@triton.jit
def gather(out, x, index, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(index + offs, mask=offs < n)
    value = tl.load(x + where, mask=offs < n)
    tl.store(out + offs, value * 2, mask=offs < n)
x = torch.arange(1000, device="cuda", dtype=torch.float32)
index = torch.arange(1000, device="cuda", dtype=torch.int64)
index[700] = 1 << 40
out = torch.empty_like(x)
torch.cuda.synchronize()
gather[(8,)](out, x, index, 1000, BLOCK=128)
torch.cuda.synchronize()
