"""flag_gems 5.0.2, a product with a transposed factor: rows that wrap are "contiguous"."""

import torch
from flag_gems.ops import mm

torch.manual_seed(0)
M, N, K = 17, 60, 17
a, b = torch.randn(K, M, device="cuda").t(), torch.randn(K, N, device="cuda")
print("largest difference:", float((mm(a, b) - a @ b).abs().max()))
