"""The launcher that runs the source through Triton's interpreter, on host memory."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from pathlib import Path

from ...common.failures import Refused
from ...job import Job
from ..placed_values import PlacedValues
from .source_and_arguments import SourceKernel

NAME = "interpreter"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def prepare() -> None:
    """What every module needs of this process, before it forks."""
    from .. import interpreter_gaps

    interpreter_gaps.fill()
    _keep_freed_memory()
    # Triton imports it when the first argument is looked at: a sixth of a second in each forked child.
    with contextlib.suppress(ImportError):
        importlib.import_module("triton.experimental.gluon")


def _keep_freed_memory() -> None:
    """An operation's array is the next one's memory: to give it back takes longer than the operation.

    Source: glibc, malloc.h and mallopt(3). Does nothing for a libc without `mallopt`.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, size in ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 128 << 20)):
            mallopt(parameter, size)


class Interpreter:
    """One source module's entry, run program by program in this process."""

    def __init__(self, path: Path, job: Job, values: PlacedValues) -> None:
        from .. import interpreter_gaps

        self._kernel = SourceKernel(path, job, values)
        if type(self._kernel.function).__name__ == "GluonJITFunction":
            raise Refused("Triton's interpreter has no Gluon: such a kernel needs a GPU")
        signatures = {a["name"]: a.get("signature") for a in job["arguments"] if a["role"] == "runtime"}
        # Under the interpreter the application's own launch saw bare Python floats: only what it could not do
        # (`x.to(...)`) is added. A compiled launch saw typed scalars, and so does its replay.
        typed = job["launch"]["mode"] != "interpreter"
        self._arguments = {
            name: interpreter_gaps.scalar(value, signatures[name], typed) if name in signatures else value
            for name, value in self._kernel.arguments.items()
        }
        self._grid = tuple(job["launch"]["grid"])

    def run(self) -> None:
        positional, named = self._kernel.passed(self._arguments)
        self._kernel.function[self._grid](*positional, **named)
