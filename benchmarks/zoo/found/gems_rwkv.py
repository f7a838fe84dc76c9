"""flag_gems 5.0.2, rwkv_ka_fusion with heads of 48 channels: each head is normed and stored with 64."""

import torch
from flag_gems.fused import rwkv_ka_fusion

torch.manual_seed(0)
T, H, N = 17, 2, 48
C = H * N
k, a = torch.randn(T, C, device="cuda"), torch.randn(T, C, device="cuda")
kk, ka = torch.randn(C, device="cuda"), torch.randn(C, device="cuda")
_, found, _ = rwkv_ka_fusion(k, kk, a, ka, H, N)
heads = (k * kk).view(T, H, N)
expected = (heads / heads.norm(dim=-1, keepdim=True)).view(T, C)
print("largest difference:", float((found - expected).abs().max()))
