"""`pack` and `unpack`: a reproducer or range as one file, and back. Nothing in it is executed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path

from kerncap import unexpected_error
from kerncap.api.output_place import beside
from kerncap.api.pack.shareable import shareable
from kerncap.errors import UsageError
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.archive import Unviewed, archive_bytes, packed_files, unpack, write_archive
from kerncap.format.folder import is_range
from kerncap.format.reader import OpenedFolder
from kerncap.report.documents.sharing import Packed
from kerncap.time_left import TimeLeft

__all__ = ["MAX_UNPACKED", "Packed", "Unviewed", "pack", "unpack_file"]

MAX_UNPACKED = 8 << 30


def pack(
    path: Path | str,
    output: Path | str | None = None,
    *,
    keep_private: Collection[str] = (),
    dry_run: bool = False,
    before: Callable[[Packed], None] | None = None,
) -> Packed:
    """Make one .zip of the reproducer or range at ``path``; every digest is checked on the way.

    ``output``: by default the folder's name with ``.zip`` in the working directory; never overwritten.
    User names, host names and secrets are replaced, but for ``keep_private`` (of `sharing.KINDS`); memory is
    not looked at. ``before`` gets the plan, sizes included, before anything is written.
    Raises `sharing.Private` if something private can't be taken out, FormatError, UsageError, KerncapError.
    """
    path = Path(path)
    target = beside(path, output, f"{path.resolve().name}.zip")
    if os.path.lexists(target):
        raise UsageError(f"{target}: already there; give another name with -o")
    if not target.resolve().parent.is_dir():
        raise unexpected_error.about(
            target, OSError(errno.ENOENT, os.strerror(errno.ENOENT)), "can't be written"
        )
    kind: type[OpenedFolder] = LaunchRange if is_range(path) else Reproducer
    with shareable(path, keep_private, target.resolve().parent, kind.open) as shared:
        reproducer = shared.reproducer
        files = tuple(packed_files(reproducer))
        plan = Packed(
            target, archive_bytes(reproducer, list(files)), files, _unviewed(reproducer),
            shared.findings, not dry_run,
            tuple(dict.fromkeys(note for launch in reproducer.launches for note in launch.notes)),
        )  # fmt: skip
        if before is not None:
            before(plan)
        if not dry_run:
            left, total = TimeLeft(f"{target.name}: written", in_bytes=True), sum(one.bytes for one in files)
            write_archive(reproducer, target, lambda done: left(done, total))
        return plan


def unpack_file(archive: Path | str, parent: Path | str = ".", max_size: int = MAX_UNPACKED) -> Path:
    """Make the reproducer's folder in ``parent``. See `kerncap.format.archive.unpack` for what it refuses."""
    return unpack(Path(archive), Path(parent), max_size)


def _unviewed(opened: OpenedFolder) -> tuple[Unviewed, ...]:
    """Memory in which no launch has a view; what launches share once, by its number in the first of them."""
    viewed, found = set(), dict[tuple[int, int, str | None], Unviewed]()
    for manifest in (launch.manifest for launch in opened.launches):
        seen = {view.region for view in manifest.views}
        for number, region in enumerate(manifest.regions):
            key = region.base, region.size, region.name
            if number in seen:
                viewed.add(key)
            elif region.size:
                found.setdefault(key, Unviewed(number, region.size, region.kind, region.reason, region.name))
    return tuple(one for key, one in found.items() if key not in viewed)
