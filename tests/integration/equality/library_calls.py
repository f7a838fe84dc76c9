"""The same operations by Liger and by Inductor, on equal tensors; run under `kerncap sanitize` with no GPU.

A launch has the name of its call in its stack.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from liger_kernel.ops import (
    LigerCrossEntropyFunction,
    LigerDyTFunction,
    LigerGELUMulFunction,
    LigerLayerNormFunction,
    LigerReLUSquaredFunction,
    LigerRMSNormFunction,
    LigerSiLUMulFunction,
    LigerSoftmaxFunction,
)
from torch._inductor import config
from torch._inductor.runtime import triton_heuristics

ROWS, N = 3, 100

config.cpu_backend = "triton"
config.compile_threads = 1


def _launched(tuner: Any, /, *given: Any, stream: Any = None, **named: Any) -> None:
    """In place of a launcher, which needs a GPU: the first configuration of the kernel itself."""
    first = tuner.configs[0]
    chosen = {name: value for name, value in first.kwargs.items() if name in tuner.fn.arg_names}
    names = [name for name in tuner.fn.arg_names if name not in chosen]
    arguments = dict(zip(names, given, strict=True))
    grid = triton_heuristics.GridExpr.from_meta(tuner.inductor_meta, first).eval_slow(
        {**arguments, **first.kwargs}
    )
    tuner.fn[grid](**arguments, **chosen, num_warps=first.num_warps, num_stages=first.num_stages)


triton_heuristics.CachingAutotuner.precompile = lambda *_, **__: None
triton_heuristics.CachingAutotuner.run = _launched


def compiled(function: Callable[..., Any], *given: torch.Tensor) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True)(*given)


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape, device="cuda") for shape in shapes]


X, Y = tensors((ROWS, N), (ROWS, N))
WEIGHT, BIAS, ALPHA = tensors((N,), (N,), (1,))
TARGET = torch.tensor([3, 99, 0], device="cuda")
CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "softmax": (lambda: LigerSoftmaxFunction.apply(X), lambda: compiled(lambda x: torch.softmax(x, 1), X)),
    "layer norm": (
        lambda: LigerLayerNormFunction.apply(X, WEIGHT, BIAS, 1e-5),
        lambda: compiled(lambda x, w, b: F.layer_norm(x, [N], w, b, 1e-5), X, WEIGHT, BIAS),
    ),
    "RMS norm": (
        lambda: LigerRMSNormFunction.apply(X, WEIGHT, 1e-6, 0.0, "llama", False),
        lambda: compiled(lambda x, w: F.rms_norm(x, [N], w, 1e-6), X, WEIGHT),
    ),
    "swiglu": (
        lambda: LigerSiLUMulFunction.apply(X, Y), lambda: compiled(lambda x, y: F.silu(x) * y, X, Y),
    ),
    "geglu": (
        lambda: LigerGELUMulFunction.apply(X, Y),
        lambda: compiled(lambda x, y: F.gelu(x, approximate="tanh") * y, X, Y),
    ),
    "cross entropy": (
        lambda: LigerCrossEntropyFunction.apply(
            X.clone(), TARGET, None, -100, 0.0, 0.0, "none", None, False
        ),
        lambda: compiled(lambda x, t: F.cross_entropy(x, t, reduction="none"), X, TARGET),
    ),
    "dynamic tanh": (
        lambda: LigerDyTFunction.apply(X, ALPHA, WEIGHT, BIAS),
        lambda: compiled(lambda x, a, w, b: w * torch.tanh(a * x) + b, X, ALPHA, WEIGHT, BIAS),
    ),
    "squared ReLU": (
        lambda: LigerReLUSquaredFunction.apply(X), lambda: compiled(lambda x: torch.relu(x) ** 2, X),
    ),
}  # fmt: skip


def _body(call: Callable[[], Any]) -> None:
    call()


def main() -> None:
    for name, calls in CALLS.items():
        for side, call in zip(("first", "second"), calls, strict=True):
            code = _body.__code__.replace(co_name=f"{name}, {side}")
            types.FunctionType(code, globals())(call)


if __name__ == "__main__":
    sys.exit(main())
