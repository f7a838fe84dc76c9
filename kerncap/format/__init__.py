"""The reproducer format: schema, writer, reader. FORMAT.md in this folder is normative.

Each name is imported when it is first used: half of them load numpy, which a ``--help`` can do without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerncap.format.checks_file import Checks, SelfCheck
    from kerncap.format.launch_range import LaunchOfRange, LaunchRange
    from kerncap.format.memory_index import MemoryIndex
    from kerncap.format.reader import Reproducer
    from kerncap.format.write_set import WriteSet
    from kerncap.format.writer import ReproducerWriter

__all__ = [
    "Checks", "LaunchOfRange", "LaunchRange", "MemoryIndex", "Reproducer", "ReproducerWriter",
    "SelfCheck", "WriteSet",
]  # fmt: skip

_HOME = {
    "Checks": "checks_file", "LaunchOfRange": "launch_range", "LaunchRange": "launch_range",
    "MemoryIndex": "memory_index", "Reproducer": "reader",
    "ReproducerWriter": "writer", "SelfCheck": "checks_file", "WriteSet": "write_set",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
