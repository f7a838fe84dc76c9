"""How the files of this folder list calls: functions of sizes, at all combinations of these."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

DEVICE = "cuda"  # under `kerncap sanitize` on a machine with no GPU that is the CPU
CALLS: dict[str, Callable[[], Any]] = {}  # by name: "chunk_gla(T=17, K=60)"


def call(**sizes: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lists the function at every combination of ``sizes``, of which names may be words of one text.

    The function imports what it needs, and returns the tensors of which a gradient is wanted (or anything).
    """

    def listed(function: Callable[..., Any]) -> Callable[..., Any]:
        choices = [one.split() if isinstance(one, str) else one for one in sizes.values()]
        for values in itertools.product(*choices):
            given = dict(zip(sizes, values, strict=True))
            name = ", ".join(f"{key}={value}" for key, value in given.items())
            CALLS[f"{function.__name__}({name})"] = lambda given=given: function(**given)  # type: ignore[misc]
        return function

    return listed


def first_of(*names: str) -> Any:
    """The first of these modules that this version of a library has. Raises ImportError."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error
    raise missing


def constant(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers."""
    return torch.randn(shape, dtype=dtype, device=DEVICE)


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The same, of which a gradient is wanted."""
    return constant(*shape, dtype=dtype).requires_grad_()


def far_apart(rows: int, columns: int) -> torch.Tensor:
    """Rows of which the last begins 2^31 numbers and more behind the first."""
    step = -(-(2**31) // (rows - 1))
    x = torch.empty_strided((rows, columns), (step, 1), dtype=torch.bfloat16, device=DEVICE)
    return x.copy_(torch.randn(rows, columns))


def integers(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, high, shape, dtype=dtype, device=DEVICE)


def offsets(*lengths: int) -> torch.Tensor:
    """cu_seqlens of sequences of these lengths."""
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int64, device=DEVICE)


def backward(outputs: Any) -> None:
    """Through every tensor of (nested) outputs that has a gradient."""
    reached = [one for one in _tensors(outputs) if one.requires_grad]
    if reached:
        torch.autograd.backward(reached, [torch.randn_like(one) for one in reached])


def _tensors(outputs: Any) -> list[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if isinstance(outputs, (list, tuple)):
        return [tensor for one in outputs for tensor in _tensors(one)]
    return []
