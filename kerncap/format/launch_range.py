"""A range: consecutive launches in one folder, each of which is read like a reproducer.

What `reader` says of one launch holds here too: everything comes from strangers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.format.allowed_names import (
    CHUNKS_PATH,
    INDEX_PATH,
    MANIFEST_PATH,
    README_PATH,
    Grammar,
    checks_of_launch,
    file_of_range,
    manifest_of_launch,
    refuse_other_files,
)
from kerncap.format.chunk_reader import ChunkReader
from kerncap.format.documents import decode_json, error_at
from kerncap.format.final_name import file_stem
from kerncap.format.manifest_file import check_format, check_manifest_digest, decode_manifest, format_of
from kerncap.format.memory_index import STATES, MemoryIndex, decode_range
from kerncap.format.reader import OpenedFolder, Reproducer, read_manifest
from kerncap.format.size_limits import MAX_INDEX_BYTES, MAX_MANIFEST_BYTES
from kerncap.format.stored_files import check_digest, check_size, digest_file, open_file, read_file
from kerncap.format.validate import Steps, stored_files
from kerncap.printable import visible


class LaunchOfRange(Reproducer):
    """One launch of a range that is open: a reproducer whose files are shared with the other launches.

    It lives as long as its range, which closes it.
    """

    number: int  # in the range, from 0
    position: int  # in the program, as the capture counted

    def __init__(self, path: Path, number: int, position: int, manifest: bytes) -> None:
        super().__init__(path)
        self.number, self.position = number, position
        self.manifest_bytes = manifest
        self.manifest_sha256 = hashlib.sha256(manifest).hexdigest()
        self.manifest = decode_manifest(manifest, path / manifest_of_launch(number))
        self.checks_path = checks_of_launch(number)

    def share_memory(self, index: MemoryIndex, chunks: ChunkReader) -> None:
        """Take the range's memory. Raises FormatError if the manifest says otherwise of it."""
        self._index = index
        self._chunks = chunks
        where = self.path / manifest_of_launch(self.number)
        for state in STATES:
            stated, found = getattr(self.manifest.memory, f"{state}_bytes"), index.raw_bytes(state)
            if stated != found:
                message = f"{state}_bytes is {stated}, the index lists {found}"
                raise error_at(self.manifest_bytes, where, ("memory", f"{state}_bytes"), message)

    def _place(self, stored: schema.StoredFile) -> str:
        return file_of_range(stored)

    def _names(self) -> list[str]:
        return [*super()._names(), manifest_of_launch(self.number)]


class LaunchRange(OpenedFolder):
    """A range that was opened: all manifests and the index are checked. A context manager."""

    manifest: schema.RangeManifest
    _opened: tuple[LaunchOfRange, ...]

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._device: tuple[str, int] | None = None

    @property
    def stem(self) -> str:
        return range_stem([launch.manifest for launch in self._opened])

    @property
    def launches(self) -> tuple[LaunchOfRange, ...]:
        return self._opened

    def listed(self) -> dict[str, schema.StoredFile]:
        return files_of_range(self.manifest, [launch.manifest for launch in self._opened])

    def launch(self, number: int) -> LaunchOfRange:
        """Raises UsageError for a launch that is not in the range."""
        if not 0 <= number < len(self.launches):
            raise UsageError(
                f"launch {number}: {visible(self.path)} has the launches 0 to {len(self.launches) - 1}"
            )
        return self.launches[number]

    def verify(self) -> None:
        self.verify_files(memory=False)
        self.launches[0].verify()

    def verify_files(self, memory: bool) -> None:
        for name, stored in self.listed().items():
            if name != CHUNKS_PATH:
                digest_file(self.path, self._root_fd, name, stored.size, stored.sha256)
        if memory:
            self.launches[0].verify_files(memory=True)

    def _load(self) -> None:
        where = self.path / MANIFEST_PATH
        data = read_manifest(self.path, self._root_fd)
        if format_of(data, where) == schema.FORMAT_NAME:
            raise UsageError(f"{visible(self.path)}: one launch, not a range; it is a reproducer already")
        self.manifest = decode_range_manifest(data, where)
        self.manifest_sha256 = hashlib.sha256(data).hexdigest()
        check_manifest_digest(self.path, self._root_fd, self.manifest_sha256)
        self._opened = tuple(self._read_launches())
        files = self.listed()
        refuse_other_files(self.path, self._root_fd, Grammar(files, of_range=True))
        for name, stored in files.items():
            fd, size = open_file(self.path, self._root_fd, name)
            os.close(fd)
            check_size(self.path / name, size, stored.size)
        self._share_memory()

    def _read_launches(self) -> Iterator[LaunchOfRange]:
        left = MAX_MANIFEST_BYTES
        for number, entry in enumerate(self.manifest.launches):
            name = entry.manifest.path
            data = read_file(self.path, self._root_fd, name, left, entry.manifest.size)
            left -= len(data)
            check_digest(self.path / name, data, entry.manifest.sha256)
            launch = LaunchOfRange(self.path, number, entry.position, data)
            self._closing.callback(launch.close)
            problem = self._problem(launch.manifest)
            if problem is not None:
                raise error_at(data, self.path / name, (problem[0],), problem[1])
            yield launch

    def _problem(self, manifest: schema.Manifest) -> tuple[str, str] | None:
        """Why a launch can't be one of this range, and the key that says so; or None."""
        memory, shared = manifest.memory, self.manifest.memory
        own = (memory.index, memory.chunk_files, memory.chunk_bytes, memory.digest_of)
        if own != (shared.index, (shared.chunks,), shared.chunk_bytes, shared.digest_of):
            return "memory", "its memory is not that of the range"
        device = (manifest.device.kind, manifest.device.ordinal)
        self._device = self._device or device
        if device != self._device:
            return "device", "its device is not that of the launches before it"
        return None

    def _share_memory(self) -> None:
        memory = self.manifest.memory
        index = read_file(self.path, self._root_fd, INDEX_PATH, MAX_INDEX_BYTES, memory.index.size)
        check_digest(self.path / INDEX_PATH, index, memory.index.sha256)
        sizes = [[region.size for region in launch.manifest.regions] for launch in self.launches]
        found = decode_range(index, self.path / INDEX_PATH, sizes, memory.chunk_bytes, memory.chunks.size)
        chunks_fd, size = open_file(self.path, self._root_fd, CHUNKS_PATH)
        self._closing.callback(os.close, chunks_fd)
        check_size(self.path / CHUNKS_PATH, size, memory.chunks.size)
        digest = self.launches[0].manifest.memory.digest
        for launch, of_launch in zip(self.launches, found, strict=True):
            launch.share_memory(of_launch, ChunkReader(self.path, [chunks_fd], [size], of_launch, digest))


def digests_of(path: Path) -> list[str]:
    """The SHA-256 of the manifest of each launch of the range at ``path``, which was sealed here."""
    with LaunchRange.open(path) as opened:
        return [launch.manifest_sha256 for launch in opened.launches]


def decode_range_manifest(data: bytes, where: Path) -> schema.RangeManifest:
    """The range's manifest in ``data``, its own rules checked. Raises FormatError."""
    check_format(data, where, schema.RANGE_FORMAT_NAME)
    manifest: schema.RangeManifest = decode_json(data, where, schema.RangeManifest)
    _check(manifest, data, where)
    return manifest


def files_of_range(
    manifest: schema.RangeManifest, launches: Iterable[schema.Manifest]
) -> dict[str, schema.StoredFile]:
    """What the manifests of a range and of its launches list, by the name in the folder."""
    memory = manifest.memory
    own = [memory.index, memory.chunks, *(launch.manifest for launch in manifest.launches), *manifest.files]
    files = {stored.path: stored for stored in own}
    for launch in launches:
        for _, stored in stored_files(launch):
            files.setdefault(file_of_range(stored), stored)
    return files


def range_stem(launches: Sequence[schema.Manifest]) -> str:
    """The first part of the name of a range's folder."""
    return file_stem(f"range_of_{len(launches)}_{launches[0].kernel.name}")


def _check(manifest: schema.RangeManifest, data: bytes, where: Path) -> None:
    """The rules of a range's manifest that span its objects. Raises FormatError."""
    expected: list[tuple[Steps, schema.StoredFile, str]] = [
        (("memory", "index"), manifest.memory.index, INDEX_PATH)
    ]
    expected.append((("memory", "chunks"), manifest.memory.chunks, CHUNKS_PATH))
    for number, launch in enumerate(manifest.launches):
        name = manifest_of_launch(number)
        expected.append((("launches", number, "manifest"), launch.manifest, name))
    expected += [(("files", number), file, README_PATH) for number, file in enumerate(manifest.files)]
    for steps, file, path in expected:
        if file.path != path:
            raise error_at(data, where, (*steps, "path"), f"{file.path!r}; expected {path!r}")
    positions = [launch.position for launch in manifest.launches]
    for number, (before, after) in enumerate(zip(positions, positions[1:], strict=False), start=1):
        if after <= before:
            message = f"position {after} after {before}: launches are in ascending order"
            raise error_at(data, where, ("launches", number, "position"), message)
    for steps, problem in _order_problems(manifest):
        raise error_at(data, where, ("order", *steps), problem)
    for number, missing in enumerate(manifest.missing):
        if missing.position in positions:
            message = f"launch {missing.position} is there, and is listed as missing"
            raise error_at(data, where, ("missing", number, "position"), message)


_NEEDS = {"record": ("stream", "event"), "wait": ("stream", "event"), "synchronize": ("stream",)} | {
    "synchronize_event": ("event",), "synchronize_all": ("stream",), "work": ("stream",)
}  # fmt: skip


def _order_problems(manifest: schema.RangeManifest) -> Iterator[tuple[Steps, str]]:
    """The place in `order`, and what is wrong there."""
    order = manifest.order
    if order is None:
        return
    launches, streams = len(manifest.launches), len(order.streams)
    if len(order.launches) != launches:
        yield ("launches",), f"{len(order.launches)} places for {launches} launches"
    for number, place in enumerate(order.launches):
        if place.stream >= streams:
            yield ("launches", number, "stream"), f"stream {place.stream} of {streams}"
    before = 0
    for number, call in enumerate(order.calls):
        if not before <= call.before < launches:
            yield ("calls", number, "before"), f"launch {call.before} after {before}, of {launches}"
        before = call.before
        if call.stream is not None and call.stream >= streams:
            yield ("calls", number, "stream"), f"stream {call.stream} of {streams}"
        for key in _NEEDS.get(call.call, ()):
            if getattr(call, key) is None:
                yield ("calls", number), f"{call.call} without {key}"
