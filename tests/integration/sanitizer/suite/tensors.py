"""Small deterministic CPU tensors for the suite's launches.

Each file of kernels has a generator of its own: what it gets does not depend on what else is imported,
so a test's process and the oracle's see the same values.
"""

from __future__ import annotations

import sys
import zlib
from typing import Any

import torch

_generators: dict[str, torch.Generator] = {}


def _generator() -> torch.Generator:
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == __name__ and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals["__name__"]
    if module not in _generators:
        _generators[module] = torch.Generator().manual_seed(zlib.crc32(module.encode()))
    return _generators[module]


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed values."""
    return torch.randn(*shape, generator=_generator()).to(dtype)


def half(*shape: int) -> torch.Tensor:
    return rand(*shape, dtype=torch.float16)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype)


def izeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int32)


def ints(values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """The given integers."""
    return torch.tensor(list(values) if not isinstance(values, list) else values, dtype=dtype)


def longs(values: Any) -> torch.Tensor:
    return ints(values, torch.int64)


def below(high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Integers of [0, high)."""
    return torch.randint(0, high, shape, generator=_generator()).to(dtype)


def shuffled(n: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """A permutation of 0 … n-1."""
    return torch.randperm(n, generator=_generator()).to(dtype)
