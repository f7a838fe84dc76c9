"""torchao 0.18.0, int_scaled_matmul: K that is even counts as a multiple of the block."""

import torch
from torchao.kernel.intmm_triton import int8_mm_kernel_configs, int_scaled_matmul_kernel

torch.manual_seed(0)
M, K, N = 65, 48, 60
a, more = (torch.randint(-9, 9, shape, dtype=torch.int8, device="cuda") for shape in ((M, K), (K + 16, N)))
b = more[:K]
scales = torch.ones(M, 1, device="cuda")
out = torch.empty(M, N, device="cuda")
int_scaled_matmul_kernel(a, b, scales, out, int8_mm_kernel_configs[0])
print("largest difference:", float((out - a.float() @ b.float()).abs().max()))
