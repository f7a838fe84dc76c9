"""Reading an archive that a stranger made: no name leads out, no size is believed, nothing is left half done.

The directory at the archive's end is measured before it is read. The manifest comes first, alone; it says
which files there are and how long each is, and only these are taken.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kerncap import scratch, unexpected_error, writable_by_others
from kerncap.errors import FormatError, KerncapError, UsageError
from kerncap.format import schema
from kerncap.format.allowed_names import (
    CHECKS_PATH,
    MANIFEST_DIGEST_PATH,
    MANIFEST_PATH,
    Grammar,
    checks_of_launch,
    is_write_set,
    not_a_write_set,
)
from kerncap.format.archive.allowed_entries import allowed_entries
from kerncap.format.archive.directory import check_directory
from kerncap.format.archive.named_folder import place
from kerncap.format.checks_file import decode_checks
from kerncap.format.launch_range import LaunchRange, decode_range_manifest, files_of_range
from kerncap.format.manifest_file import decode_manifest, format_of
from kerncap.format.reader import OpenedFolder, Reproducer
from kerncap.format.size_limits import MAX_CHECKS_BYTES, MAX_MANIFEST_BYTES
from kerncap.format.stored_files import check_digest, format_error
from kerncap.format.validate import stored_files
from kerncap.printable import visible
from kerncap.regular_file import open_regular

# Memory is packed already, and code and text shrink tenfold at best: more is a bomb.
MOST_TIMES_LARGER = 100
ALWAYS_ALLOWED = 64 << 20
_PIECE = 1 << 20
_DIGEST_BYTES = 256
# One file is another one's folder, or too deep: the manifest's mistake, not this machine's.
_BAD_NAMES = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


def unpack(archive: Path, parent: Path, max_size: int) -> Path:
    """Make the folder of the reproducer or range in ``parent``; its path. Every digest was checked.

    ``max_size``: bytes that the files may have together. Raises FormatError for an archive that is damaged,
    hostile or none, UsageError if the folder is there already or can't be written or the archive is
    missing or the disk too full. Nothing stays behind then.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_regular(archive))
        opened = stack.enter_context(_Archive(archive, file))
        temporary = parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(scratch.folder("unpack", parent, hidden=True, mode=0o755))
            temporary = made.path
            kind = opened.extract(temporary, max_size)
            with kind.open(temporary) as unpacked:
                unpacked.verify_files(memory=True)
            writable_by_others.shut_out(temporary)
            return place(made, parent, unpacked)
        except FormatError as error:
            if temporary not in Path(error.path).parents:
                raise
            inside = Path(error.path).relative_to(temporary)
            raise format_error(archive, error.offset, f"{inside}: {error.message}") from error
        except OSError as error:
            raise unexpected_error.about(parent, error, "can't be written") from error


def is_packed(path: Path) -> bool:
    """Whether an archive lists a manifest in a folder; what it is worth is found out by unpacking it."""
    try:
        with open_regular(path) as file:
            check_directory(path, file)
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
    except (KerncapError, OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
    return any(name.count("/") == 1 and name.endswith(f"/{MANIFEST_PATH}") for name in names)


class _Archive:
    """An archive whose directory was measured and read; ``entries`` by their name in the reproducer."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._size = os.fstat(file.fileno()).st_size
        check_directory(path, file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (
            zipfile.BadZipFile,
            ValueError,
            OSError,
            NotImplementedError,
            struct.error,
            IndexError,
        ) as error:
            raise format_error(path, 0, f"not a readable zip file: {error}") from error
        self._entries, self._folders = allowed_entries(path, self._zip.infolist(), self._size)

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def extract(self, folder: Path, max_size: int) -> type[OpenedFolder]:
        """Write what the manifest lists, and nothing else; what it is."""
        data = self._read(MANIFEST_PATH, MAX_MANIFEST_BYTES)
        if of_range := format_of(data, folder / MANIFEST_PATH) == schema.RANGE_FORMAT_NAME:
            manifest = decode_range_manifest(data, folder / MANIFEST_PATH)
            listed = files_of_range(manifest, self._launches(manifest, folder))
            sizes = {name: stored.size for name, stored in listed.items()}
            checks = [checks_of_launch(number) for number in range(len(manifest.launches))]
        else:
            files = stored_files(decode_manifest(data, folder / MANIFEST_PATH))
            sizes = {stored.path: stored.size for _, stored in files}
            checks = [CHECKS_PATH]
        self._refuse_other_names(Grammar(sizes, of_range))
        beside = {MANIFEST_PATH: data, MANIFEST_DIGEST_PATH: self._read(MANIFEST_DIGEST_PATH, _DIGEST_BYTES)}
        left = MAX_CHECKS_BYTES
        for name in checks:
            if name not in self._entries:
                continue
            beside[name] = self._read(name, left)
            left -= len(beside[name])
            write_set = decode_checks(beside[name], folder / name).write_set
            if write_set is not None:
                if not is_write_set(write_set.path):
                    raise format_error(folder / name, 0, not_a_write_set(write_set.path))
                sizes.setdefault(write_set.path, write_set.size)
        self._check_sizes(sizes, folder, max_size)
        for name, content in beside.items():
            (folder / name).write_bytes(content)
        for name, size in sizes.items():
            try:
                out = open(scratch.place_of(name, folder), "xb")  # noqa: SIM115 (closed below)
            except OSError as error:
                if error.errno not in _BAD_NAMES:
                    raise
                message = f"{visible(name)} can't be a file here: {error.strerror}"
                raise format_error(folder / MANIFEST_PATH, 0, message) from error
            with out:
                for piece in self._pieces(name, size):
                    out.write(piece)
        return LaunchRange if of_range else Reproducer

    def _launches(self, manifest: schema.RangeManifest, folder: Path) -> Iterator[schema.Manifest]:
        """The manifests of a range's launches, which say what else there is."""
        left = MAX_MANIFEST_BYTES
        for launch in manifest.launches:
            data = self._read(launch.manifest.path, left)
            left -= len(data)
            check_digest(folder / launch.manifest.path, data, launch.manifest.sha256)
            yield decode_manifest(data, folder / launch.manifest.path)

    def _refuse_other_names(self, grammar: Grammar) -> None:
        for name, info in self._entries.items():
            problem = grammar.problem(name)
            if problem is not None:
                raise format_error(self._path, info.header_offset, f"{visible(name, 200)}: {problem}")
        for name, info in self._folders.items():
            problem = grammar.problem(name, is_folder=True)
            if problem is not None:
                raise format_error(self._path, info.header_offset, f"{visible(name, 200)}: {problem}")

    def _check_sizes(self, sizes: dict[str, int], folder: Path, max_size: int) -> None:
        total, free = sum(sizes.values()), shutil.disk_usage(folder).free
        where = visible(self._path)
        if total > max_size:
            raise UsageError(f"{where}: {total:,} bytes unpacked; --max-size allows {max_size:,}")
        if total > MOST_TIMES_LARGER * self._size + ALWAYS_ALLOWED:
            message = f"{self._size:,} bytes claim to hold {total:,}: no reproducer packs so well"
            raise format_error(self._path, 0, message)
        if total > free:
            raise UsageError(f"{folder.parent}: {where} needs {total:,} bytes, {free:,} are free")

    def _read(self, name: str, limit: int) -> bytes:
        info = self._entries.get(name)
        if info is None:
            raise format_error(self._path, 0, f"{name} is missing")
        if info.file_size > limit:
            message = f"{name}: {info.file_size} bytes; at most {limit} are allowed"
            raise format_error(self._path, info.header_offset, message)
        return b"".join(self._pieces(name, info.file_size))

    def _pieces(self, name: str, size: int) -> Iterator[bytes]:
        """The bytes of one file, ``size`` of them and no more, whatever the archive says."""
        info = self._entries.get(name)
        if info is None:
            raise format_error(self._path, 0, f"{visible(name)} is missing")
        if info.file_size != size:
            message = f"{visible(name)}: {info.file_size} bytes, the manifest says {size}"
            raise format_error(self._path, info.header_offset, message)
        done, extra = 0, b""
        try:
            with self._zip.open(info) as source:
                while done < size and (piece := source.read(min(_PIECE, size - done))):
                    done += len(piece)
                    yield piece
                extra = source.read(1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            NotImplementedError,
            struct.error,
        ) as error:
            message = f"{visible(name)}: damaged: {error}"
            raise format_error(self._path, info.header_offset, message) from error
        if done != size or extra:
            message = (
                f"{visible(name)}: {'longer' if extra else 'shorter'} than the {size} bytes that it claims"
            )
            raise format_error(self._path, info.header_offset, message)
