"""Kernels of the samples on tensors of a few hundred elements, which the interpreter runs in milliseconds."""

import os
import sys
from pathlib import Path

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

sys.path.insert(0, str(Path(__file__).parents[3] / "samples"))
torch.manual_seed(0)


def kernel_of(sample: str, name: str) -> object:
    import importlib

    return getattr(importlib.import_module(f"{sample}.run"), name)


def main() -> None:
    x, y = torch.randn(4, 24), torch.randn(4, 24)
    kernel_of("vector_add", "add_kernel")[(3,)](x, y, torch.empty(90), 90, 32)
    kernel_of("softmax", "softmax_kernel")[(4,)](torch.empty(4, 24), x, 24, 24, 24, BLOCK=32)
    kernel_of("inplace_scale", "scale_kernel")[(3,)](torch.randn(90), 3.0, 90, 32)
    picks = torch.tensor([3, 0, 2])
    kernel_of("gather", "gather_kernel")[(3,)](x, picks, torch.empty(3, 24), 24, BLOCK=32)
    values = torch.randint(0, 8, (50,), dtype=torch.int32)
    counts = torch.zeros(8, dtype=torch.int32)
    kernel_of("atomic_histogram", "histogram_kernel")[(2,)](values, counts, 50, 32)
    w, b, out = torch.randn(24), torch.randn(24), torch.empty(4, 24)
    mean, rstd = torch.empty(4), torch.empty(4)
    kernel_of("layer_norm", "layer_norm_forward")[(4,)](x, w, b, out, mean, rstd, 24, 24, 1e-5, 32)
    dx, dw, db = torch.empty(4, 24), torch.zeros(24), torch.zeros(24)
    kernel_of("layer_norm", "layer_norm_backward")[(4,)](dx, dw, db, y, x, w, mean, rstd, 24, 24, 32)
    kernel_of("nan_on_seventh", "standardise_kernel")[(4,)](x, torch.empty(4, 24), 24, BLOCK=32)
    kernel_of("out_of_bounds", "square_kernel")[(3,)](torch.randn(96), torch.empty(96), 96, BLOCK=32)
    a, b, c = torch.randn(20, 24).half(), torch.randn(24, 18).half(), torch.empty(20, 18).half()
    kernel_of("autotuned_matmul", "matmul_kernel").fn[(2, 2)](
        a, b, c, 20, 18, 24, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=16, BLOCK_N=16, BLOCK_K=16
    )
    q, k, v = (torch.randn(2, 24, 16) for _ in range(3))
    kernel_of("flash_attention", "attention_kernel")[(2, 2)](
        q, k, v, torch.empty_like(q), 0.25, 24 * 16, 16, 24,
        HEAD_DIM=16, BLOCK_M=16, BLOCK_N=16, CAUSAL=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
