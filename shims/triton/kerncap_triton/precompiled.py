"""`kernel = fn.warmup(...); kernel[grid](...)`: launches of a CompiledKernel that go past `run`."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Tuple

from . import compiled_facts, run_hook
from .annotate import Annotation
from .call import Call
from .chosen_launch import Watch
from .contract import word
from .kernels import Kernel
from .session import Session

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def patch(session: Session, kind: Any) -> None:
    """Put the hook on CompiledKernel's ``[grid]``. Counts and ordinals are its jit function's."""
    original = kind.__getitem__

    @functools.wraps(original)
    def with_grid(self: Any, /, grid: Any) -> Any:
        runner = original(self, grid)
        fn = getattr(self.src, "fn", None)
        if fn is None:
            return runner  # compiled from IR

        @functools.wraps(runner)
        def run(*args: Any, **kwargs: Any) -> Any:
            if run_hook.is_skipped(session, fn):
                return runner(*args, **kwargs)
            return _slow(session, runner, self, grid, args, kwargs)

        return run

    kind.__getitem__ = with_grid


def _slow(
    session: Session,
    runner: Callable[..., Any],
    binary: Any,
    grid: Any,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
) -> Any:
    if session.thread.busy:
        return runner(*args, **kwargs)
    fn = binary.src.fn
    watch = run_hook.consider(
        session, fn, lambda f: Kernel(f, word.mode.jit), lambda k: bind(k, binary, grid, args)
    )
    if watch is None:
        return runner(*args, **kwargs)
    if isinstance(watch, Annotation):
        watch.compiled_name = str(binary.name)
    if isinstance(watch, Watch):
        names = watch.call.kernel.arg_names
        watch.describe_compiled = lambda _: compiled_facts.describe(session, binary, str(fn.__name__), names)
    return run_hook.observe(session, watch, lambda: runner(*args, **kwargs))


def bind(kernel: Kernel, binary: Any, grid: Any, args: Tuple[Any, ...]) -> Call:
    """The same launch as the jit function would make it. ValueError if the arguments do not fit.

    Whatever is passed for a constexpr, what runs was compiled with another value: that is taken.
    """
    constants = {}
    for key, value in (getattr(binary.src, "constants", None) or {}).items():
        key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        constants[kernel.arg_names[key] if isinstance(key, int) else key] = value
    names = kernel.arg_names
    if len(args) != len(names):
        raise ValueError(f"{kernel.name} takes {len(kernel.arg_names)} arguments, {len(args)} were given")
    given = dict(zip(names, args))
    arguments = {
        name: constants[name] if name in kernel.constexprs and name in constants else given[name]
        for name in kernel.arg_names
    }
    options = {name: getattr(binary.metadata, name, None) for name in _OPTIONS}
    return Call(kernel, arguments, {n: v for n, v in options.items() if v is not None}, tuple(grid))
