"""Reading a reproducer. Everything in it comes from strangers: nothing is believed, nothing executed.

Caps come before allocation, digests before use; every failure is a FormatError of one line that
names the file and the byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import weakref
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np

from kerncap import writable_by_others
from kerncap.errors import FormatError, KerncapError, UsageError
from kerncap.format import schema
from kerncap.format.allowed_names import (
    CHECKS_PATH,
    CHUNKS_PATHS,
    INDEX_PATH,
    MANIFEST_DIGEST_PATH,
    MANIFEST_PATH,
    Grammar,
    refuse_other_files,
)
from kerncap.format.checks_file import Checks, decode_checks, encode_checks
from kerncap.format.chunk_reader import ChunkReader, Raw
from kerncap.format.documents import error_at
from kerncap.format.final_name import file_stem
from kerncap.format.folder import open_root, replace_file
from kerncap.format.manifest_file import check_manifest_digest, decode_manifest, format_of
from kerncap.format.memory_index import STATES, ZERO_ROW, MemoryIndex, State
from kerncap.format.packing import UNIT_BYTES
from kerncap.format.positioned_write import write_parts
from kerncap.format.size_limits import MAX_CHECKS_BYTES, MAX_FILE_BYTES, MAX_INDEX_BYTES, MAX_MANIFEST_BYTES
from kerncap.format.stored_files import (
    check_digest,
    check_size,
    digest_file,
    exists,
    format_error,
    open_file,
    read_file,
    require_digest,
)
from kerncap.format.validate import stored_files
from kerncap.printable import visible

Opened = TypeVar("Opened", bound="OpenedFolder")


class OpenedFolder:
    """A folder that is read by one descriptor, so that it stays the same one. A context manager."""

    path: Path
    manifest_sha256: str

    def __init__(self, path: Path) -> None:
        self.path = path
        self._closing = contextlib.ExitStack()
        weakref.finalize(self, self._closing.close)
        self._root_fd = open_root(path)
        self._closing.callback(os.close, self._root_fd)

    @classmethod
    def open(cls: type[Opened], path: Path | str) -> Opened:
        """Check manifest and index of the folder ``path``.

        Raises FormatError for anything malformed, UsageError when there is no such folder.
        """
        self = cls(Path(path))
        try:
            self._load()
        except BaseException:
            self.close()
            raise
        return self

    @classmethod
    def is_whole(cls, path: Path, manifest_sha256: str) -> bool:
        """Whether the folder has a manifest of this SHA-256 and is undamaged."""
        try:
            with cls.open(path) as there:
                if there.manifest_sha256 != manifest_sha256:
                    return False
                there.verify()
                return True
        except (KerncapError, OSError):
            return False

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing.close()

    @property
    def stem(self) -> str:
        """The first part of the folder's name."""
        raise NotImplementedError

    @property
    def launches(self) -> Sequence[Reproducer]:
        """The launches that it holds, in order."""
        raise NotImplementedError

    def listed(self) -> dict[str, schema.StoredFile]:
        """Every file that a manifest of it lists, by its name in the folder."""
        raise NotImplementedError

    def verify(self) -> None:
        """Check everything: the digests of all files, and of every chunk. Raises FormatError."""
        raise NotImplementedError

    def verify_files(self, memory: bool) -> None:
        """Check the digests of all files, of memory/chunks only with ``memory``. Raises FormatError.

        Unpacks nothing, so it costs no more than reading the files.
        """
        raise NotImplementedError

    def open_file(self, name: str) -> tuple[int, int]:
        """A descriptor of a file of the folder, and its size; the caller closes it. Raises FormatError."""
        return open_file(self.path, self._root_fd, name)

    def _load(self) -> None:
        """Read and check what is small. Raises FormatError."""
        raise NotImplementedError


class Reproducer(OpenedFolder):
    """A reproducer that was opened: manifest and memory index are checked, memory is on disk.

    Chunks and other files are checked when they are read, all of them by `verify`. Safe to read
    from several threads. Close it, or use it as a context manager.
    """

    manifest: schema.Manifest
    manifest_bytes: bytes  # as they are in the file
    max_expanded: int | None = None  # bytes that the user lets the memory take, written out (`expanded_size`)
    notes: list[str]  # what a user should know about this folder beyond the manifest
    in_range: Sequence[Reproducer] = ()  # the launches that it stands for, of a range as a whole
    checks_path = CHECKS_PATH  # of what was found out after sealing

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.notes = []

    # --- memory ------------------------------------------------------------------------------

    def read(self, state: State, region: int, offset: int, size: int) -> bytes:
        """``size`` bytes of a region from ``offset`` on, before (pre) or after (post) the launch."""
        buffer = bytearray(size)
        self.read_into(state, region, offset, memoryview(buffer))
        return bytes(buffer)

    def read_into(self, state: State, region: int, offset: int, target: memoryview) -> None:
        """Fill ``target`` (writable, contiguous) with the region's bytes from ``offset`` on."""
        target = target.cast("B")
        end = offset + len(target)
        region_size = self.manifest.regions[region].size
        if offset < 0 or end > region_size:
            raise ValueError(f"bytes {offset} to {end} of region {region}, which has {region_size}")
        if not len(target):
            return
        step = self._index.chunk_bytes
        first, last = offset // step, -(-end // step)
        rows = self._index.rows(state, region, first, last)
        # Copied by numpy: other threads go on meanwhile.
        out = np.frombuffer(target, np.uint8)

        def place(chunk: int, parts: list[Raw]) -> None:
            at = chunk * step - offset
            for part in parts:
                data = np.frombuffer(part, np.uint8)[max(0, -at) : len(target) - at]
                out[max(0, at) : max(0, at) + len(data)] = data
                at += len(part)

        for number in np.flatnonzero(rows == ZERO_ROW).tolist():
            at = (first + number) * step - offset
            out[max(0, at) : at + step] = 0
        listed = np.flatnonzero(rows)
        self._chunks.each(listed + first, rows[listed], place)

    def stage(self, state: State, region: int, targets: Sequence[Path], only_changed: bool = False) -> None:
        """Write the region into new files, one after the other, holes for what is zero.

        The files have whole units of bytes but for the last that has any: a unit is written in one piece, and
        those that follow each other into different files, each of which takes one writer at a time.
        ``only_changed``: holes for what the launch did not change, too.
        """
        size, step = self.manifest.regions[region].size, self._index.chunk_bytes
        unit = max(UNIT_BYTES, step)
        several = len(targets) > 1 and UNIT_BYTES % step == 0
        units = max(2, -(-size // (unit * (len(targets) if several else 1))))  # of a file
        chunks, rows = (self._index.stored if only_changed else self._index.nonzero)(state, region)
        chunks, rows = chunks[rows != ZERO_ROW], rows[rows != ZERO_ROW]
        at = chunks * step // unit
        order = np.lexsort((chunks, at // units, at % units)) if several else slice(None)
        with contextlib.ExitStack() as stack:
            files = []
            for number, target in enumerate(targets):
                fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, fd)
                os.ftruncate(fd, max(0, min(size - number * units * unit, units * unit)))
                files.append(fd)

            def write(chunk: int, parts: list[Raw]) -> None:
                number, offset = divmod(chunk * step, units * unit)
                write_parts(files[number], offset, parts)

            self._chunks.each(chunks[order], rows[order], write)

    def chunks_changed(self, region: int) -> list[int]:
        """Numbers of the chunks that the launch changed, ascending."""
        chunks, _ = self._index.stored("post", region)
        return [int(chunk) for chunk in chunks]

    @property
    def variables(self) -> list[int]:
        """The regions that are variables of the kernel's own module."""
        regions = enumerate(self.manifest.regions)
        return [number for number, region in regions if region.kind == "global" and not region.module]

    @property
    def index(self) -> MemoryIndex:
        return self._index

    def payload(self, row: int) -> bytes:
        """A chunk as it is stored, packed or not. Raises FormatError for a file that ends early."""
        return self._chunks.payload(row)

    def chunk(self, row: int) -> bytes:
        """A chunk's raw bytes, checked. Raises FormatError."""
        return self._chunks.chunk(row)

    # --- files -------------------------------------------------------------------------------

    def code(self, stage: str) -> bytes | None:
        """One stage of the compiled kernel, or None if it was not saved."""
        for code in self.manifest.code:
            if code.stage == stage:
                return self.file(code.file)
        return None

    def source_text(self) -> str | None:
        """The editable module, or None if the source was not found."""
        source = self.manifest.source
        if source is None:
            return None
        data = self.file(source.file)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise format_error(self.path / source.file.path, error.start, "not UTF-8") from error

    def file(self, stored: schema.StoredFile) -> bytes:
        """The bytes of a file that the manifest lists, its size and digest checked."""
        name = self._place(stored)
        data = read_file(self.path, self._root_fd, name, MAX_FILE_BYTES, stored.size)
        check_digest(self.path / name, data, stored.sha256)
        return data

    def _place(self, stored: schema.StoredFile) -> str:
        """The name in the folder of a file that the manifest lists."""
        return stored.path

    @property
    def stem(self) -> str:
        return file_stem(self.manifest.kernel.name)

    @property
    def launches(self) -> Sequence[Reproducer]:
        return (self,)

    def listed(self) -> dict[str, schema.StoredFile]:
        return {self._place(stored): stored for _, stored in stored_files(self.manifest)}

    def verify(self) -> None:
        self.verify_files(memory=True)
        self._chunks.check()

    def verify_files(self, memory: bool) -> None:
        for _, stored in stored_files(self.manifest):
            if stored.path in CHUNKS_PATHS:
                if memory:
                    self._verify_chunks_file(stored)
                continue
            digest_file(self.path, self._root_fd, self._place(stored), stored.size, stored.sha256)

    def _verify_chunks_file(self, stored: schema.StoredFile) -> None:
        try:
            if self.manifest.memory.digest_of is None:
                digest_file(self.path, self._root_fd, stored.path, stored.size, stored.sha256)
            else:
                found = self._chunks.digest_of_payloads(CHUNKS_PATHS.index(stored.path))
                require_digest(self.path / stored.path, found, stored.sha256)
        except FormatError:
            self._chunks.check()  # the damaged chunk says where it is
            raise

    # --- checks ------------------------------------------------------------------------------

    def checks(self) -> Checks | None:
        """What was found out after sealing; None if there is nothing, or only for another manifest."""
        if not exists(self.path, self._root_fd, self.checks_path):
            return None
        data = read_file(self.path, self._root_fd, self.checks_path, MAX_CHECKS_BYTES)
        checks = decode_checks(data, self.path / self.checks_path)
        if checks.manifest_sha256 != self.manifest_sha256:
            note = f"{self.checks_path} belongs to another manifest and is ignored"
            if note not in self.notes:
                self.notes.append(note)
            return None
        return checks

    def write_checks(self, checks: Checks) -> None:
        """Write the checks in one step. Raises ValueError for those of another manifest."""
        if checks.manifest_sha256 != self.manifest_sha256:
            raise ValueError("these checks belong to another manifest")
        self.replace_file(self.checks_path, encode_checks(checks))

    def replace_file(self, name: str, data: bytes) -> None:
        """Put a file beside the manifest in one step; for what is found after sealing."""
        replace_file(self._root_fd, name, data)

    def others_may_change(self) -> tuple[Path, str] | None:
        """What of the folder others may change or exchange, and why; None if nothing. It is asked of the
        folder that was opened, whatever lies at its path by now."""
        for name in ("", *_folders_and_files(self._names())):
            try:
                info = os.stat(name or ".", dir_fd=self._root_fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # reading it reports that
            why = writable_by_others.may_change(info)
            if why is not None:
                return self.path / name, why
        return writable_by_others.may_replace(self.path)

    def read_beside(self, name: str, limit: int, expected: int) -> bytes:
        """A file that was put there after sealing; the caller checks its digest."""
        return read_file(self.path, self._root_fd, name, limit, expected)

    # --- inside ------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Every file that a reader of it goes through."""
        return [MANIFEST_PATH, MANIFEST_DIGEST_PATH, *self.listed(), self.checks_path]

    def _load(self) -> None:
        data = read_manifest(self.path, self._root_fd)
        if format_of(data, self.path / MANIFEST_PATH) == schema.RANGE_FORMAT_NAME:
            raise UsageError(
                f"{visible(self.path)}: a range of launches, which this command does not take; "
                f"`kerncap slice {visible(self.path)} K` makes a reproducer of its launch K"
            )
        self.manifest = decode_manifest(data, self.path / MANIFEST_PATH)
        self.manifest_bytes = data
        self.manifest_sha256 = hashlib.sha256(data).hexdigest()
        check_manifest_digest(self.path, self._root_fd, self.manifest_sha256)
        listed = [stored for _, stored in stored_files(self.manifest)]
        grammar = Grammar({stored.path for stored in listed})
        refuse_other_files(self.path, self._root_fd, grammar)
        for stored in listed:
            fd, size = open_file(self.path, self._root_fd, stored.path)
            os.close(fd)
            check_size(self.path / stored.path, size, stored.size)
        memory = self.manifest.memory
        fds, chunk_sizes = [], [file.size for file in memory.chunk_files]
        for file in memory.chunk_files:
            fd, size = open_file(self.path, self._root_fd, file.path)
            self._closing.callback(os.close, fd)
            check_size(self.path / file.path, size, file.size)
            fds.append(fd)
        where = self.path / INDEX_PATH
        index = read_file(self.path, self._root_fd, INDEX_PATH, MAX_INDEX_BYTES, memory.index.size)
        check_digest(where, index, memory.index.sha256)
        sizes = [region.size for region in self.manifest.regions]
        self._index = MemoryIndex.decode(index, where, sizes, memory.chunk_bytes, chunk_sizes)
        self._chunks = ChunkReader(self.path, fds, chunk_sizes, self._index, memory.digest)
        for state in STATES:
            stated, found = getattr(memory, f"{state}_bytes"), self._index.raw_bytes(state)
            if stated != found:
                message = f"{state}_bytes is {stated}, the index lists {found}"
                raise error_at(data, self.path / MANIFEST_PATH, ("memory", f"{state}_bytes"), message)


def _folders_and_files(files: Sequence[str]) -> list[str]:
    """The folders that files lie in, then the files, each once."""
    folders = {str(above) for name in files for above in PurePosixPath(name).parents if str(above) != "."}
    return [*sorted(folders), *dict.fromkeys(files)]


def read_manifest(folder: Path, root_fd: int) -> bytes:
    """Of a reproducer or a range, not decoded. Raises FormatError for a folder without one."""
    if not exists(folder, root_fd, MANIFEST_PATH):
        raise format_error(folder / MANIFEST_PATH, 0, f"the file is missing{_what_is_inside(folder)}")
    return read_file(folder, root_fd, MANIFEST_PATH, MAX_MANIFEST_BYTES)


def _what_is_inside(folder: Path) -> str:
    """For a folder that is no reproducer: those that it holds, the nearest thing to a next step."""
    inside = sorted(path.name for path in folder.iterdir() if (path / MANIFEST_PATH).is_file())
    if not inside:
        return "; this folder is not a reproducer, or was not copied whole"
    shown = ", ".join(visible(name) for name in inside[:5])
    return f"; this folder holds reproducers: {shown}{', …' if len(inside) > 5 else ''}"
