"""Where a command's output goes: never into a reproducer, which holds what its manifest lists."""

from __future__ import annotations

import os
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.format.allowed_names import MANIFEST_PATH


def beside(reproducer: Path, output: Path | str | None, name: str) -> Path:
    """``output``, or else ``name`` in the working directory, outside of the reproducer if that is in it.

    Raises UsageError for an output inside the reproducer.
    """
    if output is None:
        home = outside(Path.cwd(), reproducer)
        return Path(name) if home == Path.cwd() else home / name
    target = Path(output)
    if is_inside(target, reproducer):
        raise UsageError(f"{target}: a reproducer is sealed; name a place outside of {reproducer}")
    return target


def outside(folder: Path, reproducer: Path) -> Path:
    """``folder``, or beside the reproducer if that lies around it."""
    return reproducer.resolve().parent if is_inside(folder, reproducer) else folder


def is_inside(path: Path, reproducer: Path) -> bool:
    return os.path.isfile(reproducer / MANIFEST_PATH) and path.resolve().is_relative_to(reproducer.resolve())
