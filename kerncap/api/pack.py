"""`pack` and `unpack`: a reproducer as one file for a bug report, and back. Nothing in it is executed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from kerncap.api.sharing.private import Asked, Private, private_parts, scanner
from kerncap.errors import KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.format.archive import Packed, Unviewed, archive_bytes, packed_files, unpack, write_archive
from kerncap.format.archive.redact import redact
from kerncap.format.private import Finding, redacted

__all__ = ["MAX_UNPACKED", "Packed", "Unviewed", "pack", "unpack_file"]

MAX_UNPACKED = 8 << 30


def pack(
    path: Path | str,
    output: Path | str | None = None,
    *,
    redact_kinds: Collection[str] = (),
    allow: Collection[str] = (),
    dry_run: bool = False,
    before: Callable[[Packed], None] | None = None,
) -> Packed:
    """Make one .zip of the reproducer at ``path``; every digest is checked on the way.

    ``output``: by default the folder's name with ``.zip`` in the working directory; never overwritten.
    ``redact_kinds`` (of `sharing.KINDS`) fills such places up in a copy that becomes the archive's content,
    ``allow`` leaves them. ``before`` gets the plan, sizes included, before anything is written.
    Raises `sharing.Private` if something private is left, FormatError, UsageError, KerncapError.
    """
    asked = Asked.of(redact_kinds, allow)
    path = Path(path)
    with contextlib.ExitStack() as stack:
        reproducer = stack.enter_context(Reproducer.open(path))
        reproducer.verify_files(memory=True)
        target = Path(output) if output is not None else Path(f"{path.resolve().name}.zip")
        if os.path.lexists(target):
            raise UsageError(f"{target}: already there; give another name with -o")
        found = private_parts(reproducer)
        filled = [one for one in found if one.kind in asked.redact]
        kept = [one for one in found if one.kind not in asked.redact]
        stopping = [one for one in kept if one.kind not in asked.allow]
        if stopping:
            raise Private(path, stopping)
        if filled:
            folder = stack.enter_context(_scratch(target))
            reproducer = stack.enter_context(Reproducer.open(_redacted(reproducer, folder, asked, filled)))
        files = tuple(packed_files(reproducer))
        plan = Packed(
            target, archive_bytes(reproducer, list(files)), files, _unviewed(reproducer), tuple(kept),
            tuple(filled), not dry_run, tuple(reproducer.notes),
        )  # fmt: skip
        if before is not None:
            before(plan)
        if not dry_run:
            write_archive(reproducer, target)
        return plan


def unpack_file(archive: Path | str, parent: Path | str = ".", max_size: int = MAX_UNPACKED) -> Path:
    """Make the reproducer's folder in ``parent``. See `kerncap.format.archive.unpack` for what it refuses."""
    return unpack(Path(archive), Path(parent), max_size)


def _redacted(reproducer: Reproducer, folder: Path, asked: Asked, filled: list[Finding]) -> Path:
    look = scanner()

    def clean(name: str, data: bytes) -> bytes:
        return redacted(data, [one for one in look.scan(name, data) if one.kind in asked.redact])

    kinds = " and ".join(sorted({one.what for one in filled}))
    copy = redact(
        reproducer, folder, clean, f"Redacted before it was shared: {kinds} ({len(filled)} places)."
    )
    with Reproducer.open(copy) as opened:
        left = [one for one in private_parts(opened) if one.kind in asked.redact]
    if left:
        raise KerncapError(f"{reproducer.path}: {left[0].what} in {left[0].file} could not be filled up")
    return copy


@contextlib.contextmanager
def _scratch(target: Path) -> Any:
    """A folder on the archive's own file system: the copy is as large as the reproducer."""
    folder = Path(tempfile.mkdtemp(prefix=".kerncap-pack-", dir=target.resolve().parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unviewed(reproducer: Reproducer) -> tuple[Unviewed, ...]:
    seen = {view.region for view in reproducer.manifest.views}
    return tuple(
        Unviewed(number, region.size, region.kind, region.reason, region.name)
        for number, region in enumerate(reproducer.manifest.regions)
        if number not in seen and region.size
    )
