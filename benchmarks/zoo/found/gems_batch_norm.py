"""flag_gems 5.0.2, batch_norm in training with no running statistics: they are stored over the input."""

import torch
from flag_gems.ops import batch_norm

torch.manual_seed(0)
x = torch.randn(2, 4, 6, 6, device="cuda")
before = x.clone()
ones = torch.ones(4, device="cuda")
found = batch_norm(x, ones, ones, None, None, True)[0]
expected = torch.nn.functional.batch_norm(before, None, None, ones, ones, True)
print("input changed at:", (x != before).nonzero().tolist())
print("largest difference:", float((found - expected).abs().max()))
