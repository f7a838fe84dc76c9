"""Liger-Kernel's operators, unmodified, forward and backward on small tensors.

Runs on a GPU where there is one, else under the interpreter. Prints one line per operator;
an operator that this device cannot run says why and is no failure of the target.
"""

import os
import sys
from collections.abc import Callable

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import liger_kernel.ops as ops

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def rand(*shape: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE).requires_grad_(grad)


def backward(result: object) -> None:
    outputs = result if isinstance(result, tuple) else (result,)
    total = sum(
        out.float().pow(2).sum() for out in outputs if isinstance(out, torch.Tensor) and out.requires_grad
    )
    if isinstance(total, torch.Tensor):
        total.backward()


def softmax() -> object:
    return ops.LigerSoftmaxFunction.apply(rand(4, 48))


def sparsemax() -> object:
    return ops.LigerSparsemaxFunction.apply(rand(4, 32), -1)


def relu_squared() -> object:
    return ops.LigerReLUSquaredFunction.apply(rand(4, 64))


def jsd() -> object:
    log_q = torch.log_softmax(rand(6, 40), dim=-1)
    log_p = torch.log_softmax(rand(6, 40, grad=False), dim=-1)
    return ops.LigerJSDFunction.apply(log_q, log_p, None, 0.5, -100, False)


def cross_entropy() -> object:
    target = torch.tensor([1, 5, 39, 7, 0, 3], device=DEVICE)
    result = ops.LigerCrossEntropyFunction.apply(
        rand(6, 40), target, None, -100, 0.0, 0.1, "mean", None, False
    )
    return result[0] if isinstance(result, tuple) else result


def rope() -> object:
    q, k = rand(1, 4, 8, 16), rand(1, 2, 8, 16)
    angle = torch.outer(torch.arange(8.0), 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16))
    angle = torch.cat([angle, angle], dim=-1)[None].to(DEVICE)
    return ops.LigerRopeFunction.apply(q, k, angle.cos(), angle.sin())


def llama4_rope() -> object:
    q, k = rand(1, 8, 4, 16), rand(1, 8, 2, 16)
    freqs = torch.polar(torch.ones(8, 8), torch.outer(torch.arange(8.0), 1.0 / 100 ** (torch.arange(8) / 8)))
    return ops.LigerLlama4RopeFunction.apply(q, k, freqs.to(DEVICE))


def qwen2vl_rope() -> object:
    q, k = rand(1, 4, 8, 16), rand(1, 2, 8, 16)
    angle = torch.randn(3, 1, 8, 16, device=DEVICE)
    return ops.LigerQwen2VLMRopeFunction.apply(q, k, angle.cos(), angle.sin(), [2, 3, 3], 1)


def rms_norm() -> object:
    return ops.LigerRMSNormFunction.apply(rand(6, 64), rand(64), 1e-6, 0.0, "llama", False, None)


def layer_norm() -> object:
    return ops.LigerLayerNormFunction.apply(rand(6, 64), rand(64), rand(64), 1e-6)


def group_norm() -> object:
    return ops.LigerGroupNormFunction.apply(rand(2, 8, 16), rand(8), rand(8), 8, 4, 1e-6)


def swiglu() -> object:
    return ops.LigerSiLUMulFunction.apply(rand(4, 64), rand(4, 64))


def geglu() -> object:
    return ops.LigerGELUMulFunction.apply(rand(4, 64), rand(4, 64))


def kl_div() -> object:
    prediction = torch.log_softmax(rand(4, 32), dim=-1)
    target = torch.softmax(rand(4, 32, grad=False), dim=-1)
    return ops.LigerKLDivLossFunction.apply(prediction, target, "batchmean", False, 1e-10)


def tvd() -> object:
    p, q = torch.softmax(rand(4, 32), dim=-1), torch.softmax(rand(4, 32, grad=False), dim=-1)
    return ops.LigerTVDLossFunction.apply(p, q, None, "batchmean", -100)


def dyt() -> object:
    return ops.LigerDyTFunction.apply(rand(4, 64), rand(1), rand(64), rand(64))


def poly_norm() -> object:
    return ops.LigerPolyNormFunction.apply(rand(4, 64), rand(3), rand(1), 1e-6, True)


def embedding() -> object:
    return ops.LigerEmbeddingFunction.apply(rand(32, 16), torch.tensor([[1, 3], [31, 0]], device=DEVICE))


def fused_add_rms_norm() -> object:
    return ops.LigerFusedAddRMSNormFunction.apply(
        rand(4, 64), rand(4, 64), rand(64), 1e-6, 0.0, "llama", False
    )


def fused_linear_cross_entropy() -> object:
    target = torch.tensor([1, 5, 39, 7, 0, 3], device=DEVICE)
    result = ops.LigerFusedLinearCrossEntropyFunction.apply(rand(6, 16), rand(40, 16), target)
    return result[0] if isinstance(result, tuple) else result


OPERATORS: list[Callable[[], object]] = [
    softmax, sparsemax, relu_squared, jsd, cross_entropy, rope, llama4_rope, qwen2vl_rope, rms_norm,
    layer_norm, group_norm, swiglu, geglu, kl_div, tvd, dyt, poly_norm, embedding, fused_add_rms_norm,
    fused_linear_cross_entropy,
]  # fmt: skip

for operator in OPERATORS:
    if len(sys.argv) > 1 and operator.__name__ not in sys.argv[1:]:
        continue
    try:
        backward(operator())
    except Exception as error:
        first_line = str(error).splitlines()[0][:160]
        print(f"{operator.__name__}: cannot run here: {type(error).__name__}: {first_line}")
    else:
        print(f"{operator.__name__}: ok")
