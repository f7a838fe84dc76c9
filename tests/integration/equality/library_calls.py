"""Operations by Liger, FlagGems and Inductor on the same tensors, for `kerncap sanitize` with no GPU.

python library_calls.py OUT [OPERATION…]: a launch has "OPERATION, LIBRARY" in its stack. To OUT goes a line
of JSON for each call: that name, and the addresses of what it gives back, or the error.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "zoo"))
from inductor_calls import compiled as inductor

ROWS, N = 3, 100


def liger(name: str, *given: Any) -> Any:
    import liger_kernel.ops

    return getattr(liger_kernel.ops, f"Liger{name}Function").apply(*given)


@cache
def _gems() -> Any:
    """FlagGems, told that its device is the CPU: some of it refuses tensors of any other device.

    Of its code for elementwise operations that without block pointers, which Triton 3.9 does not have.
    """
    import flag_gems.fused
    import flag_gems.ops
    from flag_gems.utils.codegen_config_utils import CODEGEN_COFIGS

    for one in CODEGEN_COFIGS.values():
        if one is not None:
            one.prefer_block_pointer = False

    for name, module in sys.modules.items():
        if name.split(".")[0] == "flag_gems" and getattr(module, "device", None) == "cuda":
            module.device = "cpu"
    return flag_gems


def gems(name: str, *given: Any, **named: Any) -> Any:
    package = _gems()
    return getattr(package.ops if hasattr(package.ops, name) else package.fused, name)(*given, **named)


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape, device="cuda") for shape in shapes]


X, Y, Z = tensors((ROWS, N), (ROWS, N), (ROWS, N))
WEIGHT, BIAS, ALPHA = tensors((N,), (N,), (1,))
IMAGE, SCALE, SHIFT = tensors((2, 6, 40), (6,), (6,))
Q, K, COS, SIN = tensors((2, 5, 3, 32), (2, 5, 1, 32), (5, 16), (5, 16))
LARGE, OTHER = tensors((5000,), (5000,))
TARGET = torch.tensor([3, 99, 0], device="cuda")
PLACES = torch.tensor([2, 0, 0, 1], device="cuda")
CHANCES, LOG_CHANCES = X.softmax(1), Y.log_softmax(1)


def _rotated(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    def one(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        c, s = cos[None, :, None, :], sin[None, :, None, :]
        return torch.cat([first * c - second * s, second * c + first * s], -1)

    return one(q), one(k)


Call = Callable[[], Any]
CALLS: dict[str, dict[str, Call]] = {
    "softmax": {
        "Liger": lambda: liger("Softmax", X),
        "FlagGems": lambda: gems("softmax", X, 1, False),
        "Inductor": lambda: inductor(lambda x: torch.softmax(x, 1), X),
    },
    "log-softmax": {
        "FlagGems": lambda: gems("log_softmax", X, 1, False),
        "Inductor": lambda: inductor(lambda x: torch.log_softmax(x, 1), X),
    },
    "softmax backward": {
        "FlagGems": lambda: gems("softmax_backward", X, CHANCES, 1, torch.float32),
        "Inductor": lambda: inductor(lambda g, y: (g - (g * y).sum(1, True)) * y, X, CHANCES),
    },
    "layer norm": {
        "Liger": lambda: liger("LayerNorm", X, WEIGHT, BIAS, 1e-5),
        "FlagGems": lambda: gems("layer_norm", X, [N], WEIGHT, BIAS, 1e-5)[0],
        "Inductor": lambda: inductor(lambda x, w, b: F.layer_norm(x, [N], w, b, 1e-5), X, WEIGHT, BIAS),
    },
    "RMS norm": {
        "Liger": lambda: liger("RMSNorm", X, WEIGHT, 1e-6, 0.0, "llama", False),
        "FlagGems": lambda: gems("rms_norm", X, [N], WEIGHT, 1e-6),
        "Inductor": lambda: inductor(lambda x, w: F.rms_norm(x, [N], w, 1e-6), X, WEIGHT),
    },
    "RMS norm of a sum": {
        "Liger": lambda: liger("FusedAddRMSNorm", X, Y, WEIGHT, 1e-6, 0.0, "llama", False),
        "FlagGems": lambda: gems("fused_add_rms_norm", X.clone(), Y.clone(), [N], WEIGHT, 1e-6),
        "Inductor": lambda: inductor(lambda x, y, w: (F.rms_norm(x + y, [N], w, 1e-6), x + y), X, Y, WEIGHT),
    },
    "group norm": {
        "Liger": lambda: liger("GroupNorm", IMAGE, SCALE, SHIFT, 6, 3, 1e-5),
        "FlagGems": lambda: gems("group_norm", IMAGE, SCALE, SHIFT, 2, 6, 40, 3, 1e-5)[0],
        "Inductor": lambda: inductor(lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5), IMAGE, SCALE, SHIFT),
    },
    # FlagGems 5.0.2 is wrong for channels in a group that are no power of two.
    "group norm of three channels": {
        "FlagGems": lambda: gems("group_norm", IMAGE, SCALE, SHIFT, 2, 6, 40, 2, 1e-5)[0],
        "Inductor": lambda: inductor(lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5), IMAGE, SCALE, SHIFT),
    },
    "swiglu": {
        "Liger": lambda: liger("SiLUMul", X, Y),
        "FlagGems": lambda: gems("silu_and_mul", X, Y),
        "Inductor": lambda: inductor(lambda x, y: F.silu(x) * y, X, Y),
    },
    "geglu": {
        "Liger": lambda: liger("GELUMul", X, Y),
        "FlagGems": lambda: gems("gelu_and_mul", X, Y, "tanh"),
        "Inductor": lambda: inductor(lambda x, y: F.gelu(x, approximate="tanh") * y, X, Y),
    },
    "silu backward": {
        "FlagGems": lambda: gems("silu_backward", Y, X),
        "Inductor": lambda: inductor(
            lambda g, x: g * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))), Y, X
        ),
    },
    "gelu": {
        "FlagGems": lambda: gems("gelu", X, approximate="none"),
        "Inductor": lambda: inductor(F.gelu, X),
    },
    "softplus": {"FlagGems": lambda: gems("softplus", X), "Inductor": lambda: inductor(F.softplus, X)},
    "cross entropy": {
        "Liger": lambda: liger("CrossEntropy", X.clone(), TARGET, None, -100, 0.0, 0.0, "none", None, False)[
            0
        ],
        "FlagGems": lambda: gems("cross_entropy_loss", X, TARGET, None, "none"),
        "Inductor": lambda: inductor(lambda x, t: F.cross_entropy(x, t, reduction="none"), X, TARGET),
    },
    "dynamic tanh": {
        "Liger": lambda: liger("DyT", X, ALPHA, WEIGHT, BIAS),
        "Inductor": lambda: inductor(lambda x, a, w, b: w * torch.tanh(a * x) + b, X, ALPHA, WEIGHT, BIAS),
    },
    "squared ReLU": {
        "Liger": lambda: liger("ReLUSquared", X),
        "Inductor": lambda: inductor(lambda x: torch.relu(x) ** 2, X),
    },
    "KL divergence": {
        "Liger": lambda: liger("KLDivLoss", LOG_CHANCES, CHANCES, "none"),
        "Inductor": lambda: inductor(lambda x, y: F.kl_div(x, y, reduction="none"), LOG_CHANCES, CHANCES),
    },
    "rotary embedding": {
        "FlagGems": lambda: gems("apply_rotary_pos_emb", Q, K, COS, SIN),
        "Inductor": lambda: inductor(_rotated, Q, K, COS, SIN),
    },
    "embedding": {
        "Liger": lambda: liger("Embedding", X, PLACES),
        "FlagGems": lambda: gems("embedding", X, PLACES),
        "Inductor": lambda: inductor(lambda x, at: F.embedding(at, x), X, PLACES),
    },
    "variance and mean": {
        "FlagGems": lambda: gems("var_mean", X, [1]),
        "Inductor": lambda: inductor(lambda x: torch.var_mean(x, 1), X),
    },
    "running sum": {
        "FlagGems": lambda: gems("cumsum", X, 1),
        "Inductor": lambda: inductor(lambda x: x.cumsum(1), X),
    },
    "sum of all": {
        "FlagGems": lambda: gems("sum", LARGE),
        "Inductor": lambda: inductor(lambda x: x.sum(), LARGE),
    },
    "mean squared error": {
        "FlagGems": lambda: gems("mse_loss", LARGE, OTHER),
        "Inductor": lambda: inductor(F.mse_loss, LARGE, OTHER),
    },
    "norm of all": {
        "FlagGems": lambda: gems("vector_norm", LARGE, 2),
        "Inductor": lambda: inductor(lambda x: torch.linalg.vector_norm(x), LARGE),
    },
    "largest": {
        "FlagGems": lambda: gems("amax", X, [1]),
        "Inductor": lambda: inductor(lambda x: x.amax(1), X),
    },
    "place of the largest": {
        "FlagGems": lambda: gems("argmax", X, 1),
        "Inductor": lambda: inductor(lambda x: x.argmax(1), X),
    },
}


def _body(call: Call) -> Any:
    return call()


def _made(name: str, call: Call) -> dict[str, Any]:
    """In the stack of each launch is a frame of this name."""
    named = types.FunctionType(_body.__code__.replace(co_name=name), globals())
    try:
        given = named(call)
    except Exception as error:
        return {"call": name, "error": f"{type(error).__name__}: {error}"}
    outputs = [one for one in (given if isinstance(given, tuple) else (given,)) if one is not None]
    _KEPT.append(outputs)
    return {"call": name, "outputs": [one.data_ptr() for one in outputs]}


_KEPT: list[Any] = []  # so that no address is used twice


def main() -> None:
    torch.set_grad_enabled(False)
    out, *wanted = sys.argv[1:]
    with open(out, "w", encoding="utf-8") as said:
        for name, calls in CALLS.items():
            for library, call in calls.items():
                if not wanted or name in wanted:
                    print(json.dumps(_made(f"{name}, {library}", call)), file=said, flush=True)


if __name__ == "__main__":
    main()
