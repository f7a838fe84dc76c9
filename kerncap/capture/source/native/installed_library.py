"""Installed headers that a kernel of a library is made of: rocPRIM's, CUB's, Thrust's.

A unit reaches them through others (`hipcub/hipcub.hpp` includes `rocprim/…`), which are read and not kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kerncap.capture.source.native.unit import Unit, includes_of, read_source

MAX_WALKED = 6000


@dataclass(frozen=True)
class Reached:
    """A header, and how it was named where it was included."""

    path: str
    name: str
    quoted: bool
    data: bytes


def add_library(unit: Unit, kernel_file: str) -> bool:
    """Add the headers of ``kernel_file``'s library that ``unit`` reaches; False without that file.

    The library is the folder that an `#include <library/…>` names first.
    """
    above = _folders_above(kernel_file)
    reached: dict[str, bytes] = {}
    root = None
    for each in walk(tuple(unit.files.items()), [*(path for path, _ in unit.folders), *above]):
        reached[each.path] = each.data
        if root is None and not each.quoted:
            folder = each.path.removesuffix(f"/{each.name}")
            library = f"{folder}/{each.name.partition('/')[0]}/"
            root = folder if folder in above and kernel_file.startswith(library) else None
    if root is None or kernel_file not in reached:
        return False
    library = f"{root}/{kernel_file[len(root) + 1 :].partition('/')[0]}/"
    unit.files.update((path, data) for path, data in reached.items() if path.startswith(library))
    unit.external = [name for name in unit.external if f"{root}/{name}" not in unit.files]
    if root not in (path for path, _ in unit.folders):
        unit.folders.append((root, "angle"))
    return True


def walk(files: Sequence[tuple[str, bytes]], folders: Sequence[str]) -> Iterator[Reached]:
    """What ``files`` include, and what that includes, each once; both branches of every condition."""
    known = {path for path, _ in files}
    waiting = [(path, *each) for path, data in files for each in includes_of(data)]
    while waiting and len(known) < MAX_WALKED:
        by, name, quoted = waiting.pop()
        places = [os.path.dirname(by), *folders] if quoted else folders
        paths = (os.path.normpath(os.path.join(folder, name)) for folder in places)
        path = next((path for path in paths if os.path.isfile(path)), None)
        data = read_source(path) if path is not None and path not in known else None
        if path is None or data is None:
            continue
        known.add(path)
        yield Reached(path, name, quoted, data)
        waiting += [(path, *each) for each in includes_of(data)]


def included_by(path: str, data: bytes) -> Iterator[bytes]:
    """The text of all that an installed header includes."""
    return (each.data for each in walk([(path, data)], _folders_above(path)))


def _folders_above(path: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(path).parents if str(folder) != "/"]
