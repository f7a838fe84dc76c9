"""torchao 0.18.0, blockwise fp8 products: scales of rows and columns past the end are loaded."""

import torch
from torchao.prototype.blockwise_fp8_training.kernels import (
    triton_fp8_gemm_1x128_128x1,
    triton_fp8_gemm_1x128_128x128,
)

torch.manual_seed(0)
M, K, N = 17, 128, 200
a = torch.randn(M, K, device="cuda").to(torch.float8_e4m3fn)
b = torch.randn(N, K, device="cuda").to(torch.float8_e4m3fn)
expected = a.float() @ b.float().t()
rows = torch.ones(1, M, device="cuda").t()
blocks, columns = torch.ones(2, 1, device="cuda").t(), torch.ones(1, N, device="cuda")
for product, scales in ((triton_fp8_gemm_1x128_128x128, blocks), (triton_fp8_gemm_1x128_128x1, columns)):
    print("largest difference:", float((product(a, b.t(), rows, scales) - expected).abs().max()))
