"""unsloth 2026.10.9, grouped GEMM: indices that wrap are promised to be contiguous."""

import torch
import unsloth  # noqa: F401 -- it has to come first
from unsloth.kernels.moe.grouped_gemm.kernels.forward import _grouped_gemm_forward_kernel

experts, n, k = 2, 48, 64
sizes = torch.tensor([5, 12], dtype=torch.int32, device="cuda")  # rows of each expert, no multiples of 32
order = torch.arange(17, dtype=torch.int32, device="cuda").flip(0)
x = torch.randn(17, k, dtype=torch.bfloat16, device="cuda")
w = torch.randn(experts * n, k, dtype=torch.bfloat16, device="cuda")
y = torch.empty(17, n, dtype=torch.bfloat16, device="cuda")
# As `grouped_gemm_forward(x, w, 1, sizes, order, permute_x=True)` launches it.
_grouped_gemm_forward_kernel[(4,)](
    x, w, y, sizes, order, None, NUM_EXPERTS=experts, NUM_TOKENS=17, TOPK=1, N=n, K=k, NUM_SMS=4,
    BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, PERMUTE_X=True,
)  # fmt: skip
rows = x[order.long()].float()
expected = torch.cat([rows[:5] @ w[:n].float().t(), rows[5:] @ w[n:].float().t()])
print("as in torch:", torch.allclose(y.float(), expected, rtol=1e-2, atol=0.1))
