"""Two devices of one process in one all-reduce: its kernels wait for each other."""

import torch
import torch.cuda.nccl as nccl

for _ in range(3):
    parts = [torch.full((1 << 20,), float(d + 1), device=f"cuda:{d}") for d in range(2)]
    for d in range(2):
        torch.cuda.synchronize(d)
    nccl.all_reduce(parts)
    for d in range(2):
        torch.cuda.synchronize(d)
print([part.sum().item() for part in parts])
