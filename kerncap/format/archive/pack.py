"""Writing the archive: the files that count, in a fixed order, with fixed times and modes."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kerncap import whole_files
from kerncap.errors import UsageError
from kerncap.format.allowed_names import CHUNKS_PATHS, MANIFEST_DIGEST_PATH, MANIFEST_PATH
from kerncap.format.archive.packed import PackedFile
from kerncap.format.reader import OpenedFolder

_LEVEL = 9
_PIECE = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can say
_MODE = 0o100644 << 16
_UNIX = 3
_LOCAL_HEADER, _CENTRAL_HEADER, _END = 30, 46, 22


def packed_files(reproducer: OpenedFolder) -> list[PackedFile]:
    """What the archive of a reproducer holds, in order, with the sizes that it will have.

    What the manifest does not list stays behind. Reads every file but the memory; raises FormatError.
    """
    found = []
    for name in _names(reproducer):
        with _opened(reproducer, name) as (file, size):
            stored = size if name in CHUNKS_PATHS else min(size, _deflated(file))
        found.append(PackedFile(name, size, stored))
    return found


def archive_bytes(reproducer: OpenedFolder, files: list[PackedFile]) -> int:
    """The size of the archive of these files, to a few bytes for each."""
    folder = len(_folder(reproducer).encode())
    heads = sum(_LOCAL_HEADER + _CENTRAL_HEADER + 2 * (folder + 1 + len(one.name.encode())) for one in files)
    return heads + sum(one.stored_bytes for one in files) + _END


def write_archive(
    reproducer: OpenedFolder, target: Path, progress: Callable[[int], None] | None = None
) -> None:
    """Write ``target``, which must not exist: beside its name first, then one rename.

    The memory's chunks are compressed already and go in as they are; the rest is deflated if that helps.
    Equal reproducers give equal bytes (with one version of zlib). ``progress`` gets bytes done.
    Raises UsageError if the target is there or can't be written, FormatError.
    """
    if os.path.lexists(target):
        raise UsageError(f"{target}: already there; give another name with -o")
    with whole_files.new_file(target, replace=False) as file:
        _write(reproducer, file, progress or (lambda _done: None))


def _write(reproducer: OpenedFolder, file: BinaryIO, progress: Callable[[int], None]) -> None:
    folder, done = _folder(reproducer), 0
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for one in packed_files(reproducer):
            info = zipfile.ZipInfo(f"{folder}/{one.name}", _EPOCH)
            info.create_system, info.external_attr = _UNIX, _MODE
            info.file_size = one.bytes
            smaller = one.stored_bytes < one.bytes
            info.compress_type = zipfile.ZIP_DEFLATED if smaller else zipfile.ZIP_STORED
            info._compresslevel = _LEVEL  # type: ignore[attr-defined]  # there is no public way
            with _opened(reproducer, one.name) as (source, _), archive.open(info, "w") as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    done += len(piece)
                    progress(done)


def _folder(reproducer: OpenedFolder) -> str:
    """The one folder at the archive's top: a reproducer's name, whatever this copy is called."""
    return f"{reproducer.stem}-{reproducer.manifest_sha256[:8]}"


def _names(reproducer: OpenedFolder) -> list[str]:
    names = set(reproducer.listed())
    for launch in reproducer.launches:
        checks = launch.checks()
        if checks is not None:
            names.add(launch.checks_path)
            if checks.write_set is not None:
                names.add(checks.write_set.path)
    # The manifest first: who reads the archive as a stream knows at once what follows.
    return [MANIFEST_PATH, MANIFEST_DIGEST_PATH, *sorted(names)]


class _opened:
    """A file of the reproducer, with its size; never through a link."""

    def __init__(self, reproducer: OpenedFolder, name: str) -> None:
        fd, self._size = reproducer.open_file(name)
        self._file = os.fdopen(fd, "rb")

    def __enter__(self) -> tuple[BinaryIO, int]:
        return self._file, self._size

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _deflated(file: BinaryIO) -> int:
    """Bytes that a file takes when it is deflated."""
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    total = 0
    while piece := file.read(_PIECE):
        total += len(coder.compress(piece))
    return total + len(coder.flush())
