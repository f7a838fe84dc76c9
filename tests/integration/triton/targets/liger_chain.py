"""Three of Liger-Kernel's operators in a row, on a GPU if there is one, else under Triton's interpreter."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import liger_kernel.ops as ops

torch.manual_seed(0)
x = torch.randn(16, 48, device="cuda" if torch.cuda.is_available() else "cpu")
hidden = ops.LigerReLUSquaredFunction.apply(x)
weights = ops.LigerSoftmaxFunction.apply(hidden)
out = ops.LigerReLUSquaredFunction.apply(weights)
print(f"{out.double().sum().item():.6f}")
