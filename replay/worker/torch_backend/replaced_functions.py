"""Notices a source module that replaces functions of the process that compares, or the clocks that time it.

On a device the module's own code runs in the worker itself, for a CUDA context does not survive a fork. This
finds what is replaced while the module loads; it is no sandbox.
"""

from __future__ import annotations

import sys
from typing import Any

_PACKAGE = __name__.rsplit(".", 2)[0]  # all of the worker
# Not all of torch: it replaces functions of its own when parts of it are loaded.
_OTHERS = {
    "torch": ("arange", "as_tensor", "equal", "from_numpy", "frombuffer", "isfinite", "isnan", "where"),
    "numpy": ("load", "packbits", "save", "unpackbits", "zeros"),
    "json": ("dumps", "loads"),
    "torch.cuda": ("CUDAGraph", "Event", "Stream", "_sleep", "current_stream", "graph", "synchronize"),
}
_CLOCKS = {
    "time": ("clock_gettime", "clock_gettime_ns", "monotonic", "monotonic_ns", "perf_counter",
             "perf_counter_ns", "process_time", "process_time_ns", "time", "time_ns"),
}  # fmt: skip
# Classes whose methods time or launch a kernel.
_CLASSES = (
    ("torch.cuda", "Event"),
    ("triton.runtime.jit", "JITFunction"),
    ("triton.runtime.jit", "KernelInterface"),
)


def clocks() -> dict[str, Any]:
    """The functions that tell the time, by name."""
    return {
        f"{name}.{key}": getattr(sys.modules.get(name), key, None)
        for name, keys in _CLOCKS.items()
        for key in keys
    }


def replaced_clocks(before: dict[str, Any]) -> str:
    """What to say of a module that replaces one; nothing if none does."""
    now = clocks()
    names = [name for name, item in before.items() if now[name] is not item]
    return f"it replaces {', '.join(names[:3])}, a clock that launches are timed by" if names else ""


def functions() -> dict[str, Any]:
    """All functions by name, of the worker and of what it compares with."""
    found: dict[str, Any] = clocks()
    for name, keys in _OTHERS.items():
        found.update({f"{name}.{key}": getattr(sys.modules.get(name), key, None) for key in keys})
    for name, key in _CLASSES:
        members = vars(getattr(sys.modules.get(name), key, object))
        found.update({f"{name}.{key}.{k}": v for k, v in members.items() if callable(v)})
    for name, module in list(sys.modules.items()):
        if name == _PACKAGE or name.startswith(_PACKAGE + "."):
            for key, item in list(vars(module).items()):
                if callable(item):
                    found[f"{name}.{key}"] = item
                if isinstance(item, type) and item.__module__.startswith(_PACKAGE):
                    found.update({f"{name}.{key}.{k}": v for k, v in vars(item).items() if callable(v)})
    return {**found, **{f"{n}()": f.__code__ for n, f in found.items() if hasattr(f, "__code__")}}


def replaced(before: dict[str, Any]) -> list[str]:
    """The names whose function is another one now, or gone."""
    now = functions()
    return sorted(name for name, item in before.items() if now.get(name) is not item)


def foreign_launch(function: Any) -> str:
    """What is wrong with a kernel that runs its module's code in place of Triton's; nothing if not."""
    kind, run = type(function), getattr(function, "run", None)
    if not kind.__module__.startswith("triton."):
        return f"it is not a function of Triton's but of a {kind.__name__} that its module defines"
    if not str(getattr(run, "__module__", "")).startswith("triton."):
        return "its module replaces how it is launched"
    if getattr(function, "pre_run_hooks", None):
        return "its module has hooks that run before each launch"
    return ""
