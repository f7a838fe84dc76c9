"""Triton's compiler for a target that need not be here, on arguments that are not tensors.

No device is touched, and torch is not loaded, but by a module that imports it.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from triton.backends.compiler import BaseBackend
from triton.runtime import driver

from ..common.failures import Refused
from ..job import Job
from ..triton_launch.launch_values import Values
from .launchers.source_and_arguments import SourceKernel

_NOT_OPTIONS = ("stream", "device", "grid", "warmup")


def compiled_for(target: Any, path: Path, job: Job) -> Any:
    """Triton's compiled kernel of the module in ``path`` with the arguments of ``job``'s launch.

    Raises KernelError, Refused, and whatever Triton's compiler raises.
    """
    driver.set_active(cast("Any", _StandIn(target)))  # it has only what compiling asks for
    look_at_no_tensor()
    kernel = SourceKernel(path, job, StandIns(job))
    options = {k: v for k, v in kernel.options.items() if v is not None and k not in _NOT_OPTIONS}
    positional, named = kernel.passed(kernel.arguments)
    compiled = kernel.function.warmup(*positional, grid=tuple(job["launch"]["grid"]), **named, **options)
    return compiled.result() if hasattr(compiled, "result") else compiled


def look_at_no_tensor() -> None:
    """Let Triton look at a first argument, for which 3.6 to 3.8 import torch: to tell its tensors, of which
    there are none here."""
    if "torch" in sys.modules:
        return
    nothing: Any = ModuleType("torch")
    nothing.Tensor = type("Tensor", (), {})
    sys.modules["torch"] = nothing
    try:
        with contextlib.suppress(Exception):  # another version looks at it elsewhere, with torch if it must
            libtriton: Any = importlib.import_module("triton._C.libtriton")
            libtriton.native_specialize_impl(BaseBackend, 1, False, True, True)
    finally:
        del sys.modules["torch"]


class StandIns(Values):
    """Arguments that have types and addresses, and no memory."""

    def view(self, index: int) -> Any:
        view = self.job["views"][index]
        address = self.job["regions"][view["region"]]["base"] + view["offset"]
        dtype = Dtype(view["dtype"], view["itemsize"])
        return _Tensor(address, dtype, view["shape"], view["strides"])

    def pointer(self, value: dict[str, Any], name: str) -> Any:
        return _Tensor(value["address"], Dtype(value["dtype"].removeprefix("torch."), 1), [0], [1])

    def torch_dtype(self, dtype: str, name: str) -> Any:
        from .compare_views import dtype_of  # loads torch

        try:
            return dtype_of(dtype)
        except ValueError as error:
            raise Refused(f"argument {name}: {error}") from error


@dataclass(frozen=True)
class Dtype:
    """As much of torch's dtype as Triton asks for: it goes by the name."""

    name: str
    itemsize: int

    def __str__(self) -> str:
        return f"torch.{self.name}"


class _Tensor:
    """As much of a tensor as Triton's specialisation asks for."""

    def __init__(self, address: int, dtype: Any, shape: list[int], strides: list[int]) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.ndim = len(self.shape)
        self._address = address
        self._strides = tuple(strides)

    def data_ptr(self) -> int:
        return self._address

    def stride(self, dim: int | None = None) -> Any:
        return self._strides if dim is None else self._strides[dim]

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def element_size(self) -> int:
        return int(self.dtype.itemsize)

    def numel(self) -> int:
        return math.prod(self.shape)

    def is_contiguous(self) -> bool:
        return True


class _StandIn:
    """Triton's driver as far as compiling asks for it; what would need a device raises."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        capability = int(self._target.arch)
        return capability // 10, capability % 10
