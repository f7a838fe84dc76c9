"""A reproducer as bytes, for a worker on another machine: its files by name, and its digest.

The sender trusts it, and says so; the worker unpacks it into a folder of its own and checks every
digest before anything of it is used.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import FormatError, UsageError
from kerncap.format import Reproducer
from kerncap.format.allowed_names import MAX_FOLDER_ENTRIES
from kerncap.format.stored_files import path_problem, read_file
from kerncap.format.validate import stored_files

_MAX_BYTES = 1 << 40
_KEPT = ("manifest.json", "manifest.sha256", "checks.json")


@dataclass(frozen=True)
class Shipment:
    """``files`` by relative name. ``trusted``: the user who submits it said that it may run."""

    digest: str
    files: tuple[tuple[str, bytes], ...]
    trusted: bool


def pack(reproducer: Reproducer, trusted: bool) -> Shipment:
    """The files that make a reproducer, and what was measured of it here."""
    root = reproducer.path
    names = [name for name in _KEPT if (root / name).is_file()]
    names += sorted(path.name for path in root.glob("write_set-*.bin"))
    names += dict.fromkeys(stored.path for _, stored in stored_files(reproducer.manifest))
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # as everything of a reproducer is read: no links, nothing but plain files
        files = tuple((name, read_file(root, fd, name, _MAX_BYTES)) for name in names)
    finally:
        os.close(fd)
    return Shipment(reproducer.manifest_sha256, files, trusted)


def unpack(shipment: Shipment, parent: Path) -> Path:
    """The folder of a shipment, made below ``parent``, everything in it checked.

    Raises UsageError for one that nobody trusts, FormatError for one that is not what it says.
    """
    if not shipment.trusted:
        raise UsageError(f"the reproducer {shipment.digest[:12]} was shipped without the sender's trust")
    if len(shipment.files) > MAX_FOLDER_ENTRIES:
        raise FormatError(parent, 0, f"a shipment of {len(shipment.files):,} files")
    folder = parent / shipment.digest[:16]
    folder.mkdir(mode=0o700)
    for name, data in shipment.files:
        problem = path_problem(name)
        if problem:
            raise FormatError(folder, 0, problem)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.closing(os.fdopen(os.open(target, flags, 0o600), "wb")) as file:
            file.write(data)
    with Reproducer.open(folder) as reproducer:
        if reproducer.manifest_sha256 != shipment.digest:
            raise FormatError(folder / "manifest.json", 0, "the shipment is of another reproducer")
        reproducer.verify()
    return folder
