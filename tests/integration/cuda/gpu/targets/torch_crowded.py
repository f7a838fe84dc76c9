"""60 GiB (or as many as the argument says) of tensors, and an operation on 8 MiB of them."""

import sys

import torch

count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
others = [torch.empty(1 << 28, device="cuda") for _ in range(count // 2)]
x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
y = torch.empty_like(x)
others += [torch.empty(1 << 28, device="cuda") for _ in range(count - count // 2)]
for _ in range(2):
    torch.mul(x, 3, out=y)
torch.cuda.synchronize()
print(f"{y.double().sum().item():.1f} {len(others)} {torch.cuda.memory_reserved() >> 30}")
