"""A reproducer as it may leave the machine: private places filled up or allowed, else it stops."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kerncap.api.sharing.private import Asked, Private, private_parts, scanner
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.format.archive.redact import redact
from kerncap.format.private import Finding, redacted


@dataclass(frozen=True)
class Shareable:
    """``reproducer`` is the one at the path, or a copy of it with ``filled`` places filled up."""

    reproducer: Reproducer
    kept: tuple[Finding, ...]  # what was found and allowed to stay
    filled: tuple[Finding, ...]


@contextlib.contextmanager
def shareable(path: Path, asked: Asked, scratch: Path) -> Iterator[Shareable]:
    """The reproducer at ``path`` with what ``asked`` says done; a copy may lie in ``scratch`` meanwhile.

    Raises Private if something private would be left, FormatError, UsageError, KerncapError.
    """
    with contextlib.ExitStack() as stack:
        reproducer = stack.enter_context(Reproducer.open(path))
        reproducer.verify_files(memory=True)
        found = private_parts(reproducer)
        filled = tuple(one for one in found if one.kind in asked.redact)
        kept = tuple(one for one in found if one.kind not in asked.redact)
        stopping = [one for one in kept if one.kind not in asked.allow]
        if stopping:
            raise Private(path, stopping)
        if filled:
            folder = stack.enter_context(_folder(scratch))
            reproducer = stack.enter_context(Reproducer.open(_copy(reproducer, folder, asked, filled)))
        yield Shareable(reproducer, kept, filled)


def _copy(reproducer: Reproducer, folder: Path, asked: Asked, filled: tuple[Finding, ...]) -> Path:
    look = scanner()

    def clean(name: str, data: bytes) -> bytes:
        return redacted(data, [one for one in look.scan(name, data) if one.kind in asked.redact])

    kinds = " and ".join(sorted({one.what for one in filled}))
    note = f"Redacted before it was shared: {kinds} ({len(filled)} places)."
    copy = redact(reproducer, folder, clean, note)
    with Reproducer.open(copy) as opened:
        left = [one for one in private_parts(opened) if one.kind in asked.redact]
    if left:
        raise KerncapError(f"{reproducer.path}: {left[0].what} in {left[0].file} could not be filled up")
    return copy


@contextlib.contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    """On the file system of what will be written: the copy is as large as the reproducer."""
    folder = Path(tempfile.mkdtemp(prefix=".kerncap-shared-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
