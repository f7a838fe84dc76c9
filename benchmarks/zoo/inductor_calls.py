"""torch.compile: Inductor writes Triton for the CPU if it is asked to; its kernels are launched as they are.

Of a kernel's configurations the first is taken.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from call import call, constant, integers, leaf
from torch._inductor import config
from torch._inductor.runtime import triton_heuristics

config.cpu_backend = "triton"
config.compile_threads = 1
config.fallback_random = True


def run(tuner: Any, /, *args: Any, stream: Any = None, **kwargs: Any) -> None:
    """In place of a launcher, which needs a GPU: the kernel itself."""
    first = tuner.configs[0]
    chosen = {name: value for name, value in first.kwargs.items() if name in tuner.fn.arg_names}
    constants = {
        name: value for name, value in tuner.triton_meta["constants"].items() if isinstance(name, str)
    }
    names = [name for name in tuner.fn.arg_names if name not in chosen]
    if len(args) < len(names):  # those that are always 1 may be left out
        names = [name for name in names if name not in constants]
    given = {**constants, **dict(zip(names, args, strict=True))}
    made_of = {**given, **first.kwargs}
    grid = triton_heuristics.GridExpr.from_meta(tuner.inductor_meta, first).eval_slow(made_of)
    tuner.fn[grid](**given, **chosen, num_warps=first.num_warps, num_stages=first.num_stages)


triton_heuristics.CachingAutotuner.precompile = lambda *_, **__: None
triton_heuristics.CachingAutotuner.run = run


def compiled(function: Any, *given: Any, dynamic: bool = False) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, dynamic=dynamic, fullgraph=True)(*given)


SIZES = ((1, 1), (17, 65), (3, 1000), (63, 48))


@call(NAME="softmax layer_norm gelu log_softmax cumsum var norm", SIZE=SIZES, DYNAMIC=(False, True))
def along(NAME: str, SIZE: Any, DYNAMIC: bool) -> Any:
    functions = {
        "softmax": lambda x: torch.softmax(x * 2, -1), "log_softmax": lambda x: F.log_softmax(x, 0),
        "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "gelu": lambda x: F.gelu(x) + x.sum(),
        "cumsum": lambda x: x.cumsum(-1), "var": lambda x: x.var(0) + x.mean(),
        "norm": lambda x: x / (x.norm(dim=-1, keepdim=True) + 1),
    }  # fmt: skip
    return compiled(functions[NAME], leaf(*SIZE), dynamic=DYNAMIC)


@call(NAME="transposed strided expanded sliced flipped padded", N=(1, 17, 65), DYNAMIC=(False, True))
def layouts(NAME: str, N: int, DYNAMIC: bool) -> Any:
    x = constant(N, 60)
    given = {"transposed": x.t(), "strided": x[:, ::3], "expanded": x[:1].expand(5, 60), "sliced": x[:, 3:50]}
    functions = {
        "flipped": lambda x: x.flip(1) * 2, "padded": lambda x: F.pad(x, (1, 2)) + 1,
    }  # fmt: skip
    default = lambda x: torch.relu(x.contiguous() + x) * x.sum(0)  # noqa: E731
    return compiled(functions.get(NAME, default), given.get(NAME, x), dynamic=DYNAMIC)


@call(NAME="gather index index_put scatter embedding cat where roll", N=(1, 17, 65), DYNAMIC=(False, True))
def indexed(NAME: str, N: int, DYNAMIC: bool) -> Any:
    x, places = constant(N, 60), integers(N, 33)
    functions = {
        "gather": lambda x, at: x.gather(0, at[:, None].expand(33, 60)), "index": lambda x, at: x[at, 3:] * 2,
        "index_put": lambda x, at: x.index_put((at,), x[at] * 2, accumulate=True),
        "scatter": lambda x, at: torch.zeros_like(x).scatter_add(0, at[:, None].expand(33, 60), x[at]),
        "embedding": lambda x, at: F.embedding(at, x).sum(0),
        "cat": lambda x, at: torch.cat([x, x[:, :7] + 1], 1),
        "where": lambda x, at: torch.where(x > 0, x, x.mean()), "roll": lambda x, at: x.roll(3, 1) + x,
    }  # fmt: skip
    return compiled(functions[NAME], x, places, dynamic=DYNAMIC)


@call(NAME="max_pool avg_pool upsample batch_norm conv_bias group_norm", N=(5, 17), DYNAMIC=(False, True))
def images(NAME: str, N: int, DYNAMIC: bool) -> Any:
    x, w = leaf(2, 6, N, N), leaf(6)
    functions = {
        "max_pool": lambda x, w: F.max_pool2d(x, 3, 2, 1), "avg_pool": lambda x, w: F.avg_pool2d(x, 3, 2, 1),
        "upsample": lambda x, w: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
        "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, True),
        "conv_bias": lambda x, w: torch.relu(x * w[:, None, None] + w[:, None, None]),
        "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    }  # fmt: skip
    return compiled(functions[NAME], x, w, dynamic=DYNAMIC)


@call(NAME="cross_entropy mse rope swiglu rms_norm dropout", N=(1, 17, 65), D=(48, 100))
def layers(NAME: str, N: int, D: int) -> Any:
    x, y, target = leaf(N, D), leaf(N, D), integers(D, N)
    functions = {
        "cross_entropy": lambda x, y, t: F.cross_entropy(x * 2, t), "mse": lambda x, y, t: F.mse_loss(x, y),
        "rope": lambda x, y, t: x * y.cos() + torch.cat([-x[:, D // 2 :], x[:, : D // 2]], 1) * y.sin(),
        "swiglu": lambda x, y, t: F.silu(x) * y, "rms_norm": lambda x, y, t: F.rms_norm(x, (D,)) * y,
        "dropout": lambda x, y, t: F.dropout(x, 0.5) + y,
    }  # fmt: skip
    return compiled(functions[NAME], x, y, target)
