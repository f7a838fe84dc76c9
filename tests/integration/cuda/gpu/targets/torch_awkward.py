"""torch's kernels that store what is there already, or leave scratch in any order: `stores` or `backward`."""

import sys

import torch
import torch.nn.functional as F

torch.manual_seed(0)
n = 1 << 16
if sys.argv[1] == "stores":
    x = torch.rand(n, device="cuda")
    x.masked_fill_(torch.zeros(n, dtype=torch.bool, device="cuda"), 3.0)
    x.clamp_(min=0)
    zeros = torch.zeros(n, device="cuda")
    zeros.zero_()
    x.copy_(x.clone().half().float())
    x.copy_(x.half())
    print("stores", x.double().sum().item(), zeros.sum().item())
else:
    for dtype in (torch.float32, torch.bfloat16):
        images = torch.randn(16, 64, 28, 28, device="cuda", dtype=dtype, requires_grad=True)
        weights = torch.randn(64, 64, 3, 3, device="cuda", dtype=dtype, requires_grad=True)
        made = F.conv2d(images.to(memory_format=torch.channels_last), weights, padding=1)
        norm = F.batch_norm(made, None, None, training=True)
        norm.square().mean().backward()
    print("backward", tuple(weights.grad.shape), tuple(images.grad.shape))
torch.cuda.synchronize()
