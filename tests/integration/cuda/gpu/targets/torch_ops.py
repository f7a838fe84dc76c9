"""torch's own kernels, one kind after another; prints a checksum of every result."""

import hashlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.manual_seed(0)
torch.backends.cudnn.benchmark = False


def report(name, *tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    print(name, digest.hexdigest()[:16])


x = torch.randn(1 << 18, device="cuda")
y = torch.randn(1 << 18, device="cuda")
report("add", x + y)
report("strided", x.view(512, 512).t() + y.view(512, 512))
report("sum", x.view(512, 512).sum(1))
report("sort", *x[:2000].sort())
report("large sort", *x.sort())

a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
b = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
report("matmul", a @ b)

q, k, v = (torch.randn(2, 8, 512, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    report("attention", F.scaled_dot_product_attention(q, k, v, is_causal=True))

images = torch.randn(8, 64, 56, 56, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
weights = torch.randn(64, 64, 3, 3, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
report("conv2d", F.conv2d(images, weights, padding=1))

parameters = [torch.randn(n, device="cuda", requires_grad=True) for n in (1000, 333, 64, 70000)]
optimizer = torch.optim.AdamW(parameters, lr=0.1, foreach=True)
for _ in range(2):
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
report("adamw", *parameters)

target = torch.zeros(512, device="cuda")
target.scatter_add_(0, torch.randint(0, 512, (1 << 18,), device="cuda"), x)
print("scatter_add", f"{target.double().sum().item():.0f}")
torch.cuda.synchronize()
