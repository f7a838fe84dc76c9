"""The launcher that compiles the source with Triton's JIT and runs it on the device."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from ..failures import KernelError
from ..values import Values
from .source import SourceKernel

NAME = "jit"

# Chosen by Triton for each process; the rest of the captured options are the kernel's own.
_NOT_OPTIONS = ("stream", "device", "grid", "warmup")


class TritonJit:
    """One source module's entry with the captured constexprs and options."""

    def __init__(self, path: Path, job: dict[str, Any], values: Values) -> None:
        self._kernel = SourceKernel(path, job, values)
        self._grid = tuple(job["launch"]["grid"])
        self._options = {
            name: value
            for name, value in self._kernel.options.items()
            if value is not None and name not in _NOT_OPTIONS
        }

        self._compile(path)

    def _compile(self, path: Path) -> None:
        """Ahead of the first launch, so that no launch's time limit pays for it."""
        try:
            self._kernel.function.warmup(grid=self._grid, **self._kernel.arguments, **self._options)
        except Exception as error:
            raise KernelError(f"{path.name} does not compile: {error}", traceback.format_exc()) from error

    def run(self) -> None:
        self._kernel.function[self._grid](**self._kernel.arguments, **self._options)
