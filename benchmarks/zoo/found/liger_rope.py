"""liger-kernel 0.8.5, rotary embedding of one token of each of several sequences (a decoding step)."""

import torch
from liger_kernel.ops.rope import LigerRopeFunction

torch.manual_seed(0)
B, H, T, D = 2, 4, 1, 64
q, k = torch.randn(B, H, T, D, device="cuda"), torch.randn(B, H, T, D, device="cuda")
cos, sin = torch.randn(1, T, D, device="cuda"), torch.randn(1, T, D, device="cuda")
cos[..., D // 2 :], sin[..., D // 2 :] = cos[..., : D // 2], sin[..., : D // 2]
half = torch.cat((-q[..., D // 2 :], q[..., : D // 2]), -1)
expected = q * cos.unsqueeze(1) + half * sin.unsqueeze(1)
found, _ = LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)
wrong = (found - expected).abs().amax((1, 2, 3)) > 1e-4
print("sequences with wrong values:", wrong.nonzero().flatten().tolist(), "of", B)
