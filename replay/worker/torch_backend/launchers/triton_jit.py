"""The launcher that compiles the source with Triton's JIT and runs it on the device."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...common.failures import KernelError
from ...cuda import driver as cu
from ...cuda import kernel_resources
from ...job import Job
from ...protocol import Compiled
from ..placed_values import PlacedValues
from . import places
from .later_stages import write_stages
from .source_and_arguments import SourceKernel

NAME = "jit"

# Chosen by Triton for each process; the rest of the captured options are the kernel's own.
_NOT_OPTIONS = ("stream", "device", "grid", "warmup")


class TritonJit:
    """One source module's entry with the captured constexprs and options."""

    def __init__(self, path: Path, job: Job, values: PlacedValues) -> None:
        self._driver: cu.Driver = values.memory.driver
        self._device = int(job["device"])
        self._kernel = SourceKernel(path, job, values)
        self._grid = tuple(job["launch"]["grid"])
        self._options = {
            name: value
            for name, value in self._kernel.options.items()
            if value is not None and name not in _NOT_OPTIONS
        }
        self._hit = False
        started = time.perf_counter()
        self._compiled = self._compile(path)
        self._compile_ms = (time.perf_counter() - started) * 1e3

    def run(self) -> None:
        positional, named = self._kernel.passed(self._kernel.arguments)
        self._kernel.function[self._grid](*positional, **named, **self._options)

    def compiled(self, folder: Path) -> Compiled:
        """Facts of what the launch runs; its stages become files in ``folder``."""
        kernel = self._compiled
        if kernel is None:
            return Compiled(compile_ms=self._compile_ms, cached=self._hit)
        meta = kernel.metadata
        ctas = int(getattr(meta, "num_ctas", 1) or 1)
        x, y, z = (*self._grid, 1, 1)[:3]
        block = (int(meta.num_warps) * int(getattr(meta, "warp_size", 32)), 1, 1)
        if isinstance(kernel.function, int):
            attributes = {"CLUSTER_DIMENSION": (ctas, 1, 1)} if ctas > 1 else {}
            config = self._driver.launch_config(
                (x * ctas, y, z), block, int(meta.shared), attributes=attributes
            )
            found = kernel_resources.of_function(self._driver, self._device, kernel.function, config, ctas)
        else:
            found = Compiled(registers=kernel.n_regs, block=block)
        found.stages = write_stages(dict(kernel.asm), folder)
        found.compile_ms, found.cached = self._compile_ms, self._hit
        found.grid = x, y, z  # in clusters, as Triton counts
        found.num_warps, found.num_stages = int(meta.num_warps), getattr(meta, "num_stages", None)
        return found

    def unload(self) -> None:
        """Give back what the device holds for it. Nothing of it may still run."""
        kernel, self._compiled = self._compiled, None
        for each in _kernels(self._kernel.function, kernel):
            module = getattr(each, "module", None)
            if isinstance(module, int):
                each.module = None  # a Triton that unloads by itself finds nothing left to unload
                self._driver.status("cuModuleUnload", module)
        getattr(self._kernel.function, "device_caches", {}).clear()
        self._kernel.forget()

    def _compile(self, path: Path) -> Any:
        """Ahead of the first launch, so that no launch's time limit pays for it."""
        try:
            with self._noted_hit():
                positional, named = self._kernel.passed(self._kernel.arguments)
                kernel = self._kernel.function.warmup(*positional, grid=self._grid, **named, **self._options)
            if hasattr(kernel, "result"):  # compiled behind our back
                kernel = kernel.result()
            if kernel is not None:
                kernel._init_handles()
        except Exception as error:
            raise KernelError(
                f"{path.name} does not compile: {places.said(error)}", traceback.format_exc(),
                places.of_error(error, path),
            ) from error  # fmt: skip
        return kernel

    @contextlib.contextmanager
    def _noted_hit(self) -> Iterator[None]:
        """Learn from Triton whether its cache had the kernel, if it tells."""
        import triton

        compilation: Any = getattr(getattr(triton, "knobs", None), "compilation", None)
        if not hasattr(compilation, "listener"):
            yield
            return
        before = compilation.listener

        def listen(**what: Any) -> None:
            self._hit = bool(what.get("cache_hit"))
            if before is not None:
                before(**what)

        compilation.listener = listen
        try:
            yield
        finally:
            compilation.listener = before


def _kernels(function: Any, first: Any) -> list[Any]:
    """What a JIT function has compiled in this process, each once."""
    found = [] if first is None else [first]
    for caches in getattr(function, "device_caches", {}).values():
        cache = caches[0] if isinstance(caches, tuple) else caches
        found += list(cache.values()) if isinstance(cache, dict) else []
    return list({id(kernel): kernel for kernel in found}.values())
