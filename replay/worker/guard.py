"""Notices a source module that replaces functions of the process that compares.

On a device the module's own code runs in the worker itself, for a CUDA context does not survive a fork. This
finds what is replaced while the module loads; it is no sandbox.
"""

from __future__ import annotations

import sys
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]
# Not all of torch: it replaces functions of its own when parts of it are loaded.
_OTHERS = {
    "torch": ("arange", "as_tensor", "equal", "from_numpy", "frombuffer", "isfinite", "isnan", "where"),
    "numpy": ("load", "packbits", "save", "unpackbits", "zeros"),
    "json": ("dumps", "loads"),
}


def functions() -> dict[str, Any]:
    """All functions by name, of the worker and of what it compares with."""
    found: dict[str, Any] = {}
    for name, keys in _OTHERS.items():
        found.update({f"{name}.{key}": getattr(sys.modules.get(name), key, None) for key in keys})
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
