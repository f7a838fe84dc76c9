"""bitsandbytes 0.50.2, AdEMAMix of 8 bits in Triton: the second moment's scales begin a block too early."""

import torch
from bitsandbytes.backends.triton.ops import optimizer_update_8bit_blockwise


def step(n: int) -> torch.Tensor:
    """One update of n numbers, of which those from 1,000 on are zeros."""
    torch.manual_seed(0)
    code, blocks = torch.linspace(-1, 1, 256, device="cuda"), -(-n // 256)
    p, g = torch.zeros(2, n, device="cuda")
    p[:1000], g[:1000] = torch.randn(2, 1000, device="cuda")
    state1 = torch.full((2, n), 128, dtype=torch.uint8, device="cuda")
    state1[:, :1000] = torch.randint(256, (2, 1000), device="cuda").to(torch.uint8)
    state2 = torch.full((n,), 255, dtype=torch.uint8, device="cuda")
    scales = torch.arange(1.0, 2 * blocks + 1, device="cuda").view(2, blocks)
    scales[1] = torch.arange(10.0, 10 + blocks, device="cuda")
    optimizer_update_8bit_blockwise(
        "ademamix", g, p, state1, state2, 0.9, 0.99, 0.999, 0.5, 1e-8, 2, 0.1, code, code,
        scales, torch.ones(blocks, device="cuda"),
    )  # fmt: skip
    return p[:1000]


print("largest difference to the same with 24 zeros more:", float((step(1000) - step(1024)).abs().max()))
