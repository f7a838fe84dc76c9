"""``kernel = fn.warmup(…); kernel[grid](…)`` on a GPU: launches of a CompiledKernel that go past ``run``."""

from __future__ import annotations

import functools
from typing import Any

from . import compilation, gpu_targets, hooks
from .arguments import Undescribable
from .launch_description import Description, describe, grid_of


def patch(kind: Any) -> None:
    original = kind.__getitem__

    @functools.wraps(original)
    def with_grid(self: Any, /, grid: Any) -> Any:
        runner = original(self, grid)
        if not gpu_targets.has_gpu():
            return runner  # the stand-in driver's launcher sees it

        @functools.wraps(runner)
        def run(*args: Any, **kwargs: Any) -> Any:
            watcher = hooks.current()
            if watcher is not None:
                _look_at(watcher, self, grid, args)
            return runner(*args, **kwargs)

        return run

    kind.__getitem__ = with_grid


def _look_at(watcher: hooks.Watcher, kernel: Any, grid: Any, args: Any) -> None:
    name = str(getattr(kernel, "name", "kernel"))
    try:
        description = hooks.quietly(lambda: _describe(watcher, kernel, grid, args))
    except Undescribable as error:
        return watcher.missed(name, str(error))
    except Exception as error:
        return watcher.missed(name, f"{type(error).__name__}: {error}")
    hooks.hand_over(watcher, description, carry_out=False)


def _describe(watcher: hooks.Watcher, kernel: Any, grid: Any, args: Any) -> Description:
    source = kernel.src
    fn = getattr(source, "fn", None)
    if fn is None:
        raise Undescribable("it was compiled from IR, which does not name its arguments")
    names = [str(name) for name in fn.arg_names]
    if len(args) != len(names):
        raise Undescribable(f"{len(args)} arguments for {len(names)} parameters")
    bound = compilation.Bound(
        dict(zip(names, args)), dict(source.signature), dict(source.constants or {}), {}, kernel.metadata, ""
    )
    numbers = grid_of(tuple(grid), {})
    target = getattr(kernel.metadata, "target", None) or gpu_targets.parse(gpu_targets.current())
    return describe(fn, bound, str(kernel.asm["ttir"]), numbers, target, {}, "", watcher.allocations)
