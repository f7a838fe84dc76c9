"""liger-kernel 0.8.5, cross entropy of logits that are one row, expanded."""

import torch
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

torch.manual_seed(0)
N, V = 64, 1000
row = torch.randn(1, V, device="cuda")
target = torch.randint(0, V, (N,), device="cuda")
expected = torch.nn.functional.cross_entropy(row.expand(N, V), target)
logits = row.clone().requires_grad_().mul(1).expand(N, V)
found = LigerCrossEntropyFunction.apply(logits, target, None)[0]
print(f"loss: {found.item():.6f}, expected: {expected.item():.6f}")
